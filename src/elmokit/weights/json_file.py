"""Reading a JSON file of a stranger: one object, of bounded size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import WeightsError

MAX_DEPTH = 20
"""No published file comes near, and code that walks through the object is safe to recurse."""


def read_object(path: Path, *, max_bytes: int, hint: str) -> dict[str, Any]:
    """The object in a file; whatever else the file is, is an error that begins with its path."""
    try:
        if path.stat().st_size > max_bytes:
            raise WeightsError(f"{path}: {path.stat().st_size:,} bytes, too large for this file", hint=hint)
        data = json.loads(path.read_bytes())
    except RecursionError as error:
        raise WeightsError(f"{path}: nested more than {MAX_DEPTH} deep", hint=hint) from error
    except ValueError as error:
        raise WeightsError(f"{path}: not JSON ({str(error)[:80]})", hint=hint) from error
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror})", hint=hint) from error
    if _depth(data) > MAX_DEPTH:
        raise WeightsError(f"{path}: nested more than {MAX_DEPTH} deep", hint=hint)
    if not isinstance(data, dict):
        raise WeightsError(f"{path}: expected an object, found {json.dumps(data)[:40]}", hint=hint)
    return data


def _depth(data: Any) -> int:
    depth, level = 0, [data]
    while level and depth <= MAX_DEPTH:
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [child for children in inner for child in children]
        depth += 1
    return depth
