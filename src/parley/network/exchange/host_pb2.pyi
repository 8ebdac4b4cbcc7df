from parley.network.exchange import wire_pb2 as _wire_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SharedQuestion(_message.Message):
    __slots__ = ("terms", "round", "content", "seen")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    terms: str
    round: int
    content: str
    seen: _wire_pb2.SignedEnd
    def __init__(self, terms: _Optional[str] = ..., round: _Optional[int] = ..., content: _Optional[str] = ..., seen: _Optional[_Union[_wire_pb2.SignedEnd, _Mapping]] = ...) -> None: ...

class Ends(_message.Message):
    __slots__ = ("terms", "own", "earlier_entries", "earlier", "kept")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    EARLIER_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    terms: str
    own: _wire_pb2.SignedEnd
    earlier_entries: int
    earlier: str
    kept: _wire_pb2.SignedEnd
    def __init__(self, terms: _Optional[str] = ..., own: _Optional[_Union[_wire_pb2.SignedEnd, _Mapping]] = ..., earlier_entries: _Optional[int] = ..., earlier: _Optional[str] = ..., kept: _Optional[_Union[_wire_pb2.SignedEnd, _Mapping]] = ...) -> None: ...

class Parcel(_message.Message):
    __slots__ = ("question", "owner", "records", "law", "exponent", "size", "first", "second")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAW_FIELD_NUMBER: _ClassVar[int]
    EXPONENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    question: SharedQuestion
    owner: str
    records: int
    law: str
    exponent: int
    size: int
    first: bytes
    second: bytes
    def __init__(self, question: _Optional[_Union[SharedQuestion, _Mapping]] = ..., owner: _Optional[str] = ..., records: _Optional[int] = ..., law: _Optional[str] = ..., exponent: _Optional[int] = ..., size: _Optional[int] = ..., first: _Optional[bytes] = ..., second: _Optional[bytes] = ...) -> None: ...

class HostOpening(_message.Message):
    __slots__ = ("question", "owners", "words", "digest", "end", "earlier")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    question: SharedQuestion
    owners: _containers.RepeatedScalarFieldContainer[str]
    words: bytes
    digest: bytes
    end: _wire_pb2.SignedEnd
    earlier: str
    def __init__(self, question: _Optional[_Union[SharedQuestion, _Mapping]] = ..., owners: _Optional[_Iterable[str]] = ..., words: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., end: _Optional[_Union[_wire_pb2.SignedEnd, _Mapping]] = ..., earlier: _Optional[str] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("terms", "channel", "number", "payload")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    terms: str
    channel: str
    number: int
    payload: bytes
    def __init__(self, terms: _Optional[str] = ..., channel: _Optional[str] = ..., number: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class HostRefusal(_message.Message):
    __slots__ = ("code", "sentence")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    code: str
    sentence: str
    def __init__(self, code: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class HostReply(_message.Message):
    __slots__ = ("done", "opening", "proposal", "record", "alive", "refusal", "numbers", "ends")
    DONE_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    done: bool
    opening: HostOpening
    proposal: str
    record: str
    alive: str
    refusal: HostRefusal
    numbers: _wire_pb2.PublicNumbers
    ends: Ends
    def __init__(self, done: bool = ..., opening: _Optional[_Union[HostOpening, _Mapping]] = ..., proposal: _Optional[str] = ..., record: _Optional[str] = ..., alive: _Optional[str] = ..., refusal: _Optional[_Union[HostRefusal, _Mapping]] = ..., numbers: _Optional[_Union[_wire_pb2.PublicNumbers, _Mapping]] = ..., ends: _Optional[_Union[Ends, _Mapping]] = ...) -> None: ...
