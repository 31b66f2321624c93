"""Names that clients make up: groups and topics, before anything is kept under them."""

import re

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")  # TopicValidator; Validators.CHARACTER_MAX_LENGTH

MOST_CLIENT_ID = 255  # characters kept of a client's id


def is_group_name(name: str) -> bool:
    """Whether a broker would make a subscription group of this name when a client first uses it
    (SubscriptionGroupManager.findSubscriptionGroupConfig).
    """
    return _LEGAL.fullmatch(name) is not None
