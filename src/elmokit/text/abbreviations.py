"""Abbreviations whose final full stop belongs to the word: short lists of common ones, for eight languages.

Only what stands before a capitalised word or a number needs listing: a full stop before lower case stays with its word
anyway, and so does that of a dotted abbreviation ("p.m."). Words that end sentences as often as not ("Inc.", "Co.",
"Jr.") are left out on purpose. Case counts: "Gen." is a title, "gen." is not. A single capital letter is an initial in
every language.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

LOWER_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
ROMAN_DIGITS = frozenset("IVXLC")

# Languages that write "3." for "third": a number of one or two digits keeps its full stop.
ORDINAL_LANGUAGES = frozenset(
    ("cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lt", "lv", "nb", "nn", "no", "sk", "sl", "sr", "tr")
)


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """What keeps its final full stop in one language; `before_number` does so only when a number follows."""

    words: frozenset[str]
    before_number: frozenset[str] = frozenset()
    ordinals: bool = False

    def keeps_stop(self, word: str, following: str) -> bool:
        """Whether the full stop after `word` stays, when the next token starts with `following` ("" at the end)."""
        if word in self.words or (len(word) == 1 and word.isupper()):
            return True
        if self.ordinals and ((len(word) <= 2 and word.isdecimal()) or ROMAN_DIGITS.issuperset(word)):
            return True
        return word in self.before_number and following.isdecimal()


WORDS = {
    # English stays close to Moses: the published models saw "Mt ." and "Sept .", in two tokens.
    "en": """
        Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Corp Cpl DR Dr Drs Ens Gen Gov Hon Hosp Insp Lt MR MRS
        MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Pfc Ph Prof Pvt Rep Reps Rev Rt Sen Sens Sgt Sr St Supt Surg Jan Feb
        Mar Apr Jun Jul Aug Sep Oct Nov Dec Nos Nr rev v vs
    """,
    "de": """
        Abb Abk Abs Abt Adj Adm Adr Anh Anm Apr Art Aufl Aug Bd Bde Bearb Bev Bez Br Brig Bros Buchst Capt Col Dez Di
        Dipl Do Dr Ew Fa Feb Fr Frl Gebr Gen Hon Hr Hrn Hrsg Ing Insp Jan Jg Jh Jhd Jul Jun Kap Kl Lt Ltd Mag Maj Mio
        Mo Mr Mrd Mrs Ms Msgr No Nov Nr Nrn Okt Op Pfd Prof Ref Rep Rev Sa Sen Sep Sept Sgt Sr St Std Str Tel Tsd Vol
        Vors allg beisp bes bezgl bspw bzgl bzw ca dgl eigtl einschl etc ev evtl exkl geb gest ggf inkl insb jährl jur
        kath lt max med min mind möbl näml od östr phil rd röm sog spez svw tägl techn theol unbek usf usw verh vgl
        vorm wg zit zw zzgl
    """,
    "fr": """
        Adj Av Boul Bd Capt Cdt Cie Col Dr Dre Ed Fig Gal Gén Jr Lieut Lt Ltd M MM Mgr Mlle Mlles Mme Mmes Mr Mrs No
        Nos Pr Prof Ste St Vol adj adv apr av bibl boul cf chap coll déc dép exempl fasc fév févr fig hab janv juil
        max min nov num obs oct p pl pp réf sept sq suiv suppl tél tom trad vol vs
    """,
    "es": """
        Adm Apdo Arq Art Av Avda Bco Brig Cap Cía Cnel Col Cmdte Dña Dr Dra Dras Dres Ed Excmo Excma Fig Fr Gob Gral
        Hno Hnos Ilmo Ilma Ing Insp Lic Lcdo Ldo Lda Mons Mtro Mtra Núm Ntra Ntro Op Pbro Pdte Prof Profa Prov Rev
        Rvdo Sdad Sgto Sr Sra Sras Sres Srta Srtas Sta Ste Sto Tel Tte Ud Uds Vd Vds Vol art cap cf col ej fig gral
        izq máx mín núm pág págs pp ss tel trad vol vs
    """,
    "it": """
        Adj Amm Arch Avv Bart Brig Capt Card Cap Cav Col Comm Comdr Cpl Dir Dott Dr Drs Egr Ecc Ens Fig Geom Gen Gent
        Giov Gov Hon Ing Lt Maj Mag Mons Mr Mrs Ms Nr Op Pres Prof Proff Prov Rag Rep Rev Sen Sgt Sig Sigg Sr Spett St
        Supt Ten Tel Vol art cap cfr cit col dott fig ing pag pagg pp seg sig sigg tab tel vol vs
    """,
    "pt": """
        Adj Adm Adv Alm Art Av Bd Brig Cap Capt Cel Cia Cmdr Col Cpl Des Dir Dom Dr Dra Dras Drs Ed Eng Engº Esc Exma
        Exmo Fig Fr Gal Gen Gov Ilma Ilmo Ind Insp Lda Ldo Lt Ltda Lic Maj Min Mons Mr Mrs Ms Msgr Op Pe Pça Pres Prof
        Profa Prov Rep Rev Sen Sgt Sr Sra Sras Srs Srta Sta Sto Sup Tel Ten Trav Univ Vol art cap cf cit col ed fig fl
        gen máx mín núm obs op pág págs pp prof ref sr sra tel trad vol vs
    """,
    "nl": """
        Adj Adm Afb Alg Apr Arch Art Aug Bros Capt Col Comm Dec Dhr Dr Drs Dra Ds Feb Fa Fam Gebr Gen Hfst Hoofdst Ing
        Ir Jan Jhr Jkvr Jl Jr Jun Lt Luit Ltd Maj Mej Mevr Mgr Mr Mrs Ms Mw Nov Nr Okt Onderw Prof Rev Secr Sept Sgt
        Sr St Sta Ste Tel Vol Zr afb alg apr art aug bijv blz bv bzgl ca dec dhr dr drs ds dw enz evt excl feb fig geb
        gebr hfst incl ing ir jan jhr jl jr kol lic max mej mevr mgr mr mw nl nov nr nrs okt ong pag plm prof resp
        sept st str tel vb vgl vnl vs
    """,
    "sv": """
        Adj Adm Bros Dipl Doc Dr Fig Gen Hr Ing Kap Kapt Kl Kungl Lt Maj Mr Mrs Ms Nr Op Prof Red St Tel Vol adj adr
        art avd bearb betr bl ca cirka dipl div doc dr dvs ekon eng enl etc exkl fig forts fr främ föreg förf gm hr
        ing inkl jan jfr jun kap kl kand kr lic lör mag max med mr mrs nr näml nov obs okt ordf osv pag prof ref resp
        sek sk st tekn tel töm uppl vard vol vån
    """,
    # Everything else: titles that travel between languages.
    "": "Adm Capt Col Dr Drs Fr Gen Hon Lt Ltd Maj Mgr Mlle Mme Mr Mrs Ms Nr Op Prof Rev Sen Sgt Sr Sra St Vol",
}

BEFORE_NUMBER = {
    "en": "No Art pp",
    "it": "No Art pp p n",
    "nl": "Nr nr",
    "pt": "No Art n p pp",
    "es": "No n p",
    "fr": "No n",
    "": "No Nr Art pp p",
}


def language_key(language: str | None) -> str:
    """The part of a language code that the rules depend on: "pt" for "pt_BR"; English when there is none."""
    return (language or "en").replace("_", "-").split("-")[0].lower()


@lru_cache(maxsize=64)
def abbreviations(language: str) -> Abbreviations:
    """The abbreviations of a `language_key`; the generic ones for languages without a list."""
    words = frozenset(WORDS.get(language, WORDS[""]).split())
    # These three write lower-case letters for words before a capital ("z. B.", "n. M."): Moses keeps them too.
    letters = LOWER_LETTERS if language in ("de", "fr", "pt") else frozenset()
    before_number = frozenset(BEFORE_NUMBER.get(language, "").split())
    return Abbreviations(words | letters, before_number, language in ORDINAL_LANGUAGES)
