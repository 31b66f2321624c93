"""The filter by an SQL92 expression. It imports lark, so it is only imported when needed."""

from reput.store_format.filter.filters import ProgramFilter
from reput.store_format.filter.parser import parse
from reput.store_format.release.profiles import Profile


class SqlFilter(ProgramFilter):
    """A consumer's subscription by SQL92, as the broker evaluates it."""

    def __init__(self, text: str, text_words: bool) -> None:
        """text_words: Profile.sql_text_words. Raises WrongExpression."""
        parsed = parse(text, text_words)
        super().__init__(parsed.program)
        # line and column from which RocketMQ ignores the text, or None; worth a warning
        self.rest = parsed.rest


def sql_filter(text: str, profile: Profile) -> SqlFilter:
    """The filter that a broker of this release makes of an expression. Raises WrongExpression."""
    return SqlFilter(text, profile.sql_text_words)
