"""Lines that are hardly running text: left-over mark-up, and text that was decoded wrongly on its way here.

Both are signs, not proofs: a line of a novel may well hold "[[". They are counted and shown, never removed.
"""

from __future__ import annotations

import re

_TAGS = (
    "a|abbr|b|big|blockquote|body|br|center|code|dd|div|dl|doc|dt|em|font|gallery|h[1-6]|head|hr|html|i|img|li|link|"
    "math|meta|nowiki|ol|p|page|pre|ref|references|script|small|span|strike|strong|style|sub|sup|table|tbody|td|text|"
    "th|title|tr|tt|u|ul"
)

_MARKUP = re.compile(
    rf"""
      </?(?:{_TAGS})(?:\s[^<>]*)?/?> | <!--                 # HTML; <s>, </s> and <unk> belong to language models
    | &(?:[a-z]{{2,8}}|\#\d{{1,6}}|\#x[0-9a-f]{{1,6}});     # entities: what Moses's own escaping leaves, too
    | \[\[ | \]\] | \{{\{{ | \}}\}} | '''                   # links, templates and bold type of a wiki
    | ^\s*\{{\| | ^\s*\|[-+}}] | ^==+[^=]+==+\s*$           # its tables and headings
    | \\[a-z]{{2,}}\s*[{{\[] | \$\$                         # LaTeX
    | ^\s*```                                               # Markdown
    | ^\s*(?:https?://|www\.)\S+\s*$                        # nothing but an address
    """,
    re.VERBOSE | re.IGNORECASE,
)

# One of these is in all mark-up: a class is looked for ten times faster than the patterns above.
_MARKUP_SIGN = re.compile(r"[<&\[\]{}\\$|`]|'''|==|://|www\.", re.IGNORECASE)

# UTF-8 read as Latin-1 or Windows-1252 ("Ã¼", "â€™", "Ð°Ð±"), and what decoders write for what they cannot read.
_WRONG_ENCODING = re.compile(
    "|".join(
        (
            "\ufffd",
            "[ÃÂ][\x80-\xbf€‚ƒ†‡ˆ‰Š‹ŒŽ˜™›œžŸ]",
            "â(?:\x80[\x80-\xbf]|€[\x80-\xbf˜™š›œžŸ“”])",
            "(?:[ÐÑ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹Œ]){2}",
        )
    )
)


def markup(line: str) -> str:
    """The first piece of mark-up in a line, or nothing."""
    return _first(_MARKUP, line) if _MARKUP_SIGN.search(line) else ""


def wrong_encoding(line: str) -> str:
    """The first sign of a wrong encoding in a line, or nothing."""
    return "" if line.isascii() else _first(_WRONG_ENCODING, line)


def _first(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.search(line)
    return match[0].strip()[:40] if match else ""
