"""Contact details in a text: found to be masked, because consultations are real people's."""

import re
from collections import Counter

# \d matches full-width digits too.
_GAP = r"(?:[-－—.]|[^\S\n]){0,3}"  # between the groups of a number's digits
_GLUE = r"""[是为加：:\s(（【“"]"""  # between a label and what it labels
# A number must end where it ends: doses and measured values are no telephone numbers.
_NO_UNIT = r"(?!\d|\s*(?:[mkμ]?[gl](?![A-Za-z])|m?IU|kcal|copies|毫|克|单位|拷贝|千卡|元|年|[*×^]|/\s*[mμu]?[Ll]))"
_TEXT = r"""[^\s\u2018-\u201f\u3000-\u303f\u4e00-\u9fff\uff00-\uffef<>"']"""  # what an address is written in

_EMAIL = r"(?P<label>)(?<![A-Za-z0-9])[A-Za-z0-9][A-Za-z0-9._%+-]*[@＠][A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"
_LINK = rf"""
    (?P<label>)
    (?i: (?:https?://|ftp://|www\.){_TEXT}+
       | (?<![a-z0-9-])(?:[a-z0-9-]+\.)+(?:com|cn|net|org|cc|top|vip|info|edu|gov)(?![a-z])(?:[/?:]{_TEXT}*)? )
    (?<![,.;:!?)])
"""
_WECHAT = rf"""
    (?P<label>
        (?: [微威薇维]信 | [Ww]e[Cc]hat | [Ww]eixin | (?<![A-Za-z])(?:[Vv][Xx信]|[Ww][Xx])
          | (?<=[加我])(?:[微薇]|[Vv](?![A-Za-z])) )
        (?:公众号|账号|同号|号码?|ID|{_GLUE}){{0,5}} )
    (?:[A-Za-z][-_A-Za-z0-9]{{5,}}|\d{{5,12}}(?![A-Za-z0-9]))
"""
_QQ = rf"""
    (?P<label>
        (?:(?<![A-Za-z])[QＱqｑ]{{2}}|扣扣|(?<=[加我])[QＱqｑ]|\[QQ\][、/或和])
        (?:群|号码?|{_GLUE}){{0,5}} )
    \d{{5,12}}(?!\d)
"""
_LABELLED_NUMBER = rf"""
    (?P<label>
        (?:电话|手机|座机|热线|专线|传真|联系方式|[Tt][Ee][Ll]|\[电话\][、/或和])
        (?:号码?|联系|[.]|{_GLUE}){{0,4}} )
    (?:[(（]\d{{3,4}}[)）]|\d{{3,4}}){_GAP}\d{{3,4}}(?:{_GAP}\d{{1,4}})?{_NO_UNIT}
"""
_NUMBER = rf"""
    (?P<label>)(?<!\d)(?<!(?<!\d)0[.])
    (?: # mobile
        (?:(?:00|[+＋])?[8８][6６]{_GAP})?[1１][3-9３-９](?:\d{_GAP}\d{{4}}{_GAP}\d{{4}}|\d{{3}}{_GAP}\d{{6}})
      | # with an area's code
        (?:[(（][0０]\d{{2,3}}[)）]|[0０]\d{{2,3}}|(?:00|[+＋])[8８][6６]{_GAP}\d{{2,3}}){_GAP}[2-9２-９]\d{{2,3}}{_GAP}\d{{4}}
      | # of a service
        [48４８][0０]{{2}}(?:{_GAP}\d{{3}}{_GAP}\d{{4}}|{_GAP}\d{{4}}{_GAP}\d{{3}}|\d{_GAP}\d{{3}}{_GAP}\d{{3}})
    ){_NO_UNIT}
"""
# In this order: an e-mail address holds a domain, and a labelled number may look like a telephone's.
_PATTERNS = [
    (kind, re.compile(pattern, re.VERBOSE), mask)
    for kind, pattern, mask in (
        ("email", _EMAIL, "[邮箱]"),
        ("link", _LINK, "[链接]"),
        ("wechat", _WECHAT, "[微信]"),
        ("qq", _QQ, "[QQ]"),
        ("telephone", _LABELLED_NUMBER, "[电话]"),
        ("telephone", _NUMBER, "[电话]"),
    )
]
CONTACTS = tuple(dict.fromkeys(kind for kind, _, _ in _PATTERNS))
# Every contact has so many of these in a row, and few other texts do.
_HINT = re.compile(r"[\dA-Za-z@＠.:/+_\s)）－—-]{4}")


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
    before = None
    # A contact that is masked may be what labels the next one, or what it was taken for a part of.
    while before != text:
        before = text
        for kind, pattern, mask in _PATTERNS:
            text, count = pattern.subn(rf"\g<label>{mask}", text)
            masked[kind] += count
    return text
