"""Contact details in a text: found to be masked, because consultations are real people's."""

import re
from collections import Counter

# \d matches full-width digits too. What repeats is bounded wherever a search may start again inside it, so that no
# text takes more than linear time.
_GAP = r"(?:[-－—.]|[^\S\n]){0,3}"  # between the groups of a number's digits
_WIDE_GAP = r"(?:[-－—.·_/]|[^\S\n]){0,3}"  # where the digits themselves tell that it is one number
_GLUE = r"""[是为加：:\s(（【“"]"""  # between a label and what it labels
_OR = r"[、/或和]"  # between the numbers of a list
# A number must end where it ends: doses and measured values are no telephone numbers.
_COUNT = r"m?IU|copies|CFU|拷贝|单位(?![：:是])|[*×^]|/\s*[mμu]?[Ll](?![A-Za-z])"
_NO_UNIT = rf"(?!\d|\s*(?:{_COUNT}|[mkμ]?[gl](?![A-Za-z])|kcal|毫|克|千卡|元(?!旦)|年(?!龄)))"
_NO_COUNT = rf"(?!\d|\s*(?:{_COUNT}|个(?!人)))"  # nobody takes a billion grams of anything
_TEXT = r"""[^\s\u2018-\u201f\u3000-\u303f\u4e00-\u9fff\uff00-\uffef<>"']"""  # what an address is written in

_MOBILE = rf"""
    (?:(?:00|[+＋])?[8８][6６]{_GAP})?
    [1１][3-9３-９](?:\d{_WIDE_GAP}(?:\d{{4}}{_WIDE_GAP}\d{{4}}|\d{{3}}{_WIDE_GAP}\d{{5}})|\d{{3}}{_GAP}\d{{6}})
"""
_AREA = r"(?:[1１][0０]|[2２]\d|[3-9３-９]\d{2})"
_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}(?:[.．]|。(?=com|cn|net))){1,8}"
_TOP = r"(?:com|cn|net|org|cc|top|vip|info|edu|gov)"

_EMAIL = rf"(?P<label>)(?<![A-Za-z0-9])(?P<list>[A-Za-z0-9][A-Za-z0-9._%+-]{{0,63}}+[@＠]{_DOMAIN}[A-Za-z]{{2,}})"
# A name of one letter is a domain only before a path, as in t.cn/abc.
_LINK = rf"""
    (?P<label>)
    (?P<list>(?i:
        (?:https?://|ftp://|www\.){_TEXT}+
      | (?<![a-z0-9-]){_DOMAIN}
        (?:(?<=[a-z0-9-]{{2}}[.．。]){_TOP}(?![a-z])(?:[/?:]{_TEXT}*)?|(?:{_TOP}|me|ly)/{_TEXT}+)
      | ｗｗｗ[.．][０-９ａ-ｚ．－／]+
    ))
    (?<![,.;:!?)])
"""
_WECHAT = rf"""
    (?P<label>
        (?: [微威薇维卫]信 | 薇(?=[：:]) | (?:[Ww]e[Cc]hat|[Ww]eixin)[-.]?
          | (?<![A-Za-z])(?:[Vv][Xx信]|[Ww][Xx](?!\d)) | (?<=[加我])(?:[微薇]|[Vv](?![A-Za-z])|[Ww][Xx]) )
        (?:公众号|账号|同号|号码?|ID|{_GLUE}){{0,5}} )
    (?P<list>[A-Za-z][-_A-Za-z0-9]{{5,}}|\d{{5,12}}(?![A-Za-z0-9]))
"""
_QQ = rf"""
    (?P<label>
        (?: (?<![A-Za-z])[QＱqｑ](?:[^\S\n]?[QＱqｑ]|(?=[：:])) | 扣扣 | 企鹅 | (?<=[加我])[QＱqｑ] | \[QQ\]{_OR} )
        (?:群|号码?|{_GLUE}){{0,5}} )
    (?P<list>\d{{5,12}}(?!\d)(?:{_OR}\d{{5,12}}(?!\d))*+)
"""
_LABELLED = rf"""(?:
    {_MOBILE}(?!\d)
  | (?:[(（]\d{{3,4}}[)）]|\d{{3,4}}){_GAP}\d{{3,4}}(?:{_GAP}\d{{1,4}})?{_NO_UNIT}
)"""
_LABELLED_NUMBER = rf"""
    (?P<label>
        (?:电话|手机|座机|热线|专线|传真|联系方式|[Tt][Ee][Ll]|\[电话\]{_OR})
        (?:号码?|联系|[.]|{_GLUE}){{0,4}} )
    (?P<list>{_LABELLED}(?:{_OR}{_LABELLED})*+)
"""
_NUMBER = rf"""
    (?P<label>)(?<!\d)(?<!(?<!\d)0[.])
    (?P<list>
        {_MOBILE}{_NO_COUNT}
      | # with an area's code
        (?:[(（][0０]{_AREA}[)）]|[0０]{_AREA}|(?:00|[+＋])[8８][6６]{_GAP}{_AREA}){_WIDE_GAP}
        [2-9２-９]\d{{2,3}}{_GAP}\d{{4}}{_NO_UNIT}
      | # of a service
        [48４８][0０]{{2}}(?:{_GAP}\d{{3}}{_GAP}\d{{4}}|{_GAP}\d{{4}}{_GAP}\d{{3}}|\d{_GAP}\d{{3}}{_GAP}\d{{3}}){_NO_UNIT}
    )
"""
# In this order: an e-mail address holds a domain, and a labelled number may look like a telephone's. With each, what
# one contact of its list is.
_PATTERNS = [
    (kind, re.compile(pattern, re.VERBOSE), re.compile(one, re.VERBOSE | re.DOTALL), mask)
    for kind, pattern, one, mask in (
        ("email", _EMAIL, ".+", "[邮箱]"),
        ("link", _LINK, ".+", "[链接]"),
        ("wechat", _WECHAT, ".+", "[微信]"),
        ("qq", _QQ, r"\d+", "[QQ]"),
        ("telephone", _LABELLED_NUMBER, _LABELLED, "[电话]"),
        ("telephone", _NUMBER, ".+", "[电话]"),
    )
]
CONTACTS = tuple(dict.fromkeys(kind for kind, *_ in _PATTERNS))
_PASSES = 4
# Every contact has so many of these in a row, and few other texts do.
_HINT = re.compile(r"[\dA-Za-zｗ@＠.．:/+_\s)）－—-]{4}")


def may_hold_contacts(text: str) -> bool:
    """Tell quickly whether a text is worth a closer look."""
    return _HINT.search(text) is not None


def mask_contacts(text: str, masked: Counter[str]) -> str:
    """Replace telephone, WeChat and QQ numbers, links and e-mail addresses by what they are, as `[电话]`.

    The label of a number (电话：) stays; the numbers of public services (120, 12356) are too short to be masked.

    Args:
        text: any text.
        masked: counts each kind of [`CONTACTS`] that is found.
    """
    # A contact that is masked may be what labels the next one, or what it was taken for a part of.
    for _ in range(_PASSES):
        before = text
        for kind, pattern, one, mask in _PATTERNS:

            def masks(match: re.Match[str], kind: str = kind, one: re.Pattern[str] = one, mask: str = mask) -> str:
                contacts, count = one.subn(mask, match["list"])
                masked[kind] += count
                return match["label"] + contacts

            text = pattern.sub(masks, text)
        if text == before:
            break
    return text
