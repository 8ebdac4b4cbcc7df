from parley.network.exchange import wire_pb2 as _wire_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerGreeting(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PeerQuestion(_message.Message):
    __slots__ = ("terms", "round", "step")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    terms: str
    round: int
    step: int
    def __init__(self, terms: _Optional[str] = ..., round: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class PeerWords(_message.Message):
    __slots__ = ("place", "owner", "length", "rows", "data")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    place: PeerQuestion
    owner: str
    length: float
    rows: int
    data: bytes
    def __init__(self, place: _Optional[_Union[PeerQuestion, _Mapping]] = ..., owner: _Optional[str] = ..., length: _Optional[float] = ..., rows: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class PeerRefusal(_message.Message):
    __slots__ = ("code", "sentence")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    code: str
    sentence: str
    def __init__(self, code: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class PeerReply(_message.Message):
    __slots__ = ("words", "later", "alive", "refusal", "numbers")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    words: PeerWords
    later: bool
    alive: str
    refusal: PeerRefusal
    numbers: _wire_pb2.PublicNumbers
    def __init__(self, words: _Optional[_Union[PeerWords, _Mapping]] = ..., later: _Optional[bool] = ..., alive: _Optional[str] = ..., refusal: _Optional[_Union[PeerRefusal, _Mapping]] = ..., numbers: _Optional[_Union[_wire_pb2.PublicNumbers, _Mapping]] = ...) -> None: ...
