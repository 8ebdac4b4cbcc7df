from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Numbers(_message.Message):
    __slots__ = ("shape", "data")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Agreement(_message.Message):
    __slots__ = ("terms", "learner", "entries", "numbers", "seen")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    terms: str
    learner: str
    entries: int
    numbers: int
    seen: SignedEnd
    def __init__(self, terms: _Optional[str] = ..., learner: _Optional[str] = ..., entries: _Optional[int] = ..., numbers: _Optional[int] = ..., seen: _Optional[_Union[SignedEnd, _Mapping]] = ...) -> None: ...

class SignedEnd(_message.Message):
    __slots__ = ("party", "terms", "book", "entries", "digest", "signature", "witness", "countersignature", "kind", "origin", "restores")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    BOOK_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    COUNTERSIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    RESTORES_FIELD_NUMBER: _ClassVar[int]
    party: str
    terms: str
    book: str
    entries: int
    digest: str
    signature: Signature
    witness: str
    countersignature: Signature
    kind: str
    origin: str
    restores: int
    def __init__(self, party: _Optional[str] = ..., terms: _Optional[str] = ..., book: _Optional[str] = ..., entries: _Optional[int] = ..., digest: _Optional[str] = ..., signature: _Optional[_Union[Signature, _Mapping]] = ..., witness: _Optional[str] = ..., countersignature: _Optional[_Union[Signature, _Mapping]] = ..., kind: _Optional[str] = ..., origin: _Optional[str] = ..., restores: _Optional[int] = ...) -> None: ...

class Signature(_message.Message):
    __slots__ = ("certificate", "value", "second")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    value: bytes
    second: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., value: _Optional[bytes] = ..., second: _Optional[bytes] = ...) -> None: ...

class PublicNumbers(_message.Message):
    __slots__ = ("arrays", "names", "data", "agreed")
    class NamesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    arrays: _containers.RepeatedCompositeFieldContainer[PublicArray]
    names: _containers.ScalarMap[str, str]
    data: bytes
    agreed: int
    def __init__(self, arrays: _Optional[_Iterable[_Union[PublicArray, _Mapping]]] = ..., names: _Optional[_Mapping[str, str]] = ..., data: _Optional[bytes] = ..., agreed: _Optional[int] = ...) -> None: ...

class PublicArray(_message.Message):
    __slots__ = ("name", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("id", "agreement", "round", "kind", "arrays", "counts")
    class ArraysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Numbers
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Numbers, _Mapping]] = ...) -> None: ...
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    agreement: Agreement
    round: int
    kind: str
    arrays: _containers.MessageMap[str, Numbers]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, id: _Optional[str] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., round: _Optional[int] = ..., kind: _Optional[str] = ..., arrays: _Optional[_Mapping[str, Numbers]] = ..., counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("query", "owner", "records", "value", "statement")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    query: str
    owner: str
    records: int
    value: Numbers
    statement: AccountStatement
    def __init__(self, query: _Optional[str] = ..., owner: _Optional[str] = ..., records: _Optional[int] = ..., value: _Optional[_Union[Numbers, _Mapping]] = ..., statement: _Optional[_Union[AccountStatement, _Mapping]] = ...) -> None: ...

class AccountStatement(_message.Message):
    __slots__ = ("owner", "epsilon", "spent", "answered", "rounds", "entries", "head", "earlier_hash", "numbers")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    EARLIER_HASH_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    epsilon: str
    spent: str
    answered: int
    rounds: int
    entries: int
    head: str
    earlier_hash: str
    numbers: PublicNumbers
    def __init__(self, owner: _Optional[str] = ..., epsilon: _Optional[str] = ..., spent: _Optional[str] = ..., answered: _Optional[int] = ..., rounds: _Optional[int] = ..., entries: _Optional[int] = ..., head: _Optional[str] = ..., earlier_hash: _Optional[str] = ..., numbers: _Optional[_Union[PublicNumbers, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("code", "sentence")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    code: str
    sentence: str
    def __init__(self, code: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("owner", "version")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    version: str
    def __init__(self, owner: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("terms", "text")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    terms: str
    text: str
    def __init__(self, terms: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ProposalState(_message.Message):
    __slots__ = ("owner", "terms", "state", "reason")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    owner: str
    terms: str
    state: str
    reason: str
    def __init__(self, owner: _Optional[str] = ..., terms: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("answer", "statement", "health", "refusal", "proposal")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    answer: Answer
    statement: AccountStatement
    health: Health
    refusal: Refusal
    proposal: ProposalState
    def __init__(self, answer: _Optional[_Union[Answer, _Mapping]] = ..., statement: _Optional[_Union[AccountStatement, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., proposal: _Optional[_Union[ProposalState, _Mapping]] = ...) -> None: ...
