from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemCopy(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("type", "name", "start_ns", "end_ns", "device_id", "sub_device_id", "memcopy", "detail_info")
    class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CPU: _ClassVar[Event.EventType]
        GPUKernel: _ClassVar[Event.EventType]
    CPU: Event.EventType
    GPUKernel: Event.EventType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMCOPY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_INFO_FIELD_NUMBER: _ClassVar[int]
    type: Event.EventType
    name: str
    start_ns: int
    end_ns: int
    device_id: int
    sub_device_id: int
    memcopy: MemCopy
    detail_info: str
    def __init__(self, type: _Optional[_Union[Event.EventType, str]] = ..., name: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., device_id: _Optional[int] = ..., sub_device_id: _Optional[int] = ..., memcopy: _Optional[_Union[MemCopy, _Mapping]] = ..., detail_info: _Optional[str] = ...) -> None: ...

class MemEvent(_message.Message):
    __slots__ = ("start_ns", "end_ns", "bytes", "place", "thread_id", "device_id", "alloc_in", "free_in")
    class Place(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CUDAPlace: _ClassVar[MemEvent.Place]
        CPUPlace: _ClassVar[MemEvent.Place]
        CUDAPinnedPlace: _ClassVar[MemEvent.Place]
    CUDAPlace: MemEvent.Place
    CPUPlace: MemEvent.Place
    CUDAPinnedPlace: MemEvent.Place
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOC_IN_FIELD_NUMBER: _ClassVar[int]
    FREE_IN_FIELD_NUMBER: _ClassVar[int]
    start_ns: int
    end_ns: int
    bytes: int
    place: MemEvent.Place
    thread_id: int
    device_id: int
    alloc_in: str
    free_in: str
    def __init__(self, start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., bytes: _Optional[int] = ..., place: _Optional[_Union[MemEvent.Place, str]] = ..., thread_id: _Optional[int] = ..., device_id: _Optional[int] = ..., alloc_in: _Optional[str] = ..., free_in: _Optional[str] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("events", "start_ns", "end_ns", "mem_events")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    MEM_EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    start_ns: int
    end_ns: int
    mem_events: _containers.RepeatedCompositeFieldContainer[MemEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., mem_events: _Optional[_Iterable[_Union[MemEvent, _Mapping]]] = ...) -> None: ...
