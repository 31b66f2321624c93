"""What a handler answers: fields are texts, and those that there are none of stay away."""

from reput.broker.serving.broker import Answer, found, refused
from reput.broker.wire.codes import ResponseCode


def test_what_is_found_is_a_success_without_a_remark() -> None:
    assert found() == Answer(0, None, {}, b"", (), None, None)
    assert found(b"{}").body == b"{}"


def test_fields_are_written_as_texts() -> None:
    said = found(offset=0, least=-1, most=(1 << 63) - 1, group="g", none="")
    assert said.fields == {
        "offset": "0", "least": "-1", "most": "9223372036854775807", "group": "g", "none": "",
    }  # fmt: skip


def test_a_field_of_none_is_left_out_and_nought_is_not() -> None:
    """RemotingCommand.makeCustomHeaderToNet leaves null fields out."""
    assert found(a=None, b=0, c=None).fields == {"b": "0"}


def test_a_refusal_has_its_remark_and_nothing_else() -> None:
    said = refused(ResponseCode.TOPIC_NOT_EXIST, "no")
    assert said == Answer(17, "no")
    assert not any(said[2:])


def test_one_answers_fields_are_not_anothers() -> None:
    found(a=1).fields["b"] = "2"
    assert found().fields == {}
    assert found(a=1).fields == {"a": "1"}
