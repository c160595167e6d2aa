"""Names that Python, NumPy and others have removed since, and what stands for them now.

A value that is a text is the present name, `module:name`; any other is given as it is.
"""

from __future__ import annotations

import errno
import functools
import inspect
import itertools
import math
import string
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Container, Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from refluid.porting.old_arrays import (
    SAVES,
    STACKS,
    array,
    copy,
    drawing,
    from_string,
    places,
    saving,
    stacking,
)

_ABC = [
    "Awaitable", "Callable", "Container", "Generator", "Hashable", "ItemsView", "Iterable",
    "Iterator", "KeysView", "Mapping", "MappingView", "MutableMapping", "MutableSequence",
    "MutableSet", "Sequence", "Set", "Sized", "ValuesView",
]  # fmt: skip
_SCTYPES = {
    kind: [np.dtype(f"{kind}{bits}").type for bits in sizes]
    for kind, sizes in {
        "int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64),
        "complex": (64, 128),
    }.items()
} | {"others": [bool, object, bytes, str, np.void]}  # fmt: skip
_NUMPY = {
    "int": int, "float": float, "bool": bool, "object": object, "complex": complex, "str": str,
    "long": int, "unicode": str, "float_": "float64", "complex_": "complex128",
    "unicode_": "str_", "string_": "bytes_", "Inf": "inf", "Infinity": "inf", "infty": "inf",
    "PINF": "inf", "NINF": -math.inf, "NaN": "nan", "NAN": "nan", "product": "prod",
    "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any", "row_stack": "vstack",
    "round_": "round", "in1d": "isin", "trapz": "trapezoid", "rank": "ndim",
    "float96": "longdouble", "float128": "longdouble", "typeDict": "sctypeDict",
    "mat": "asmatrix", "sctypes": _SCTYPES,
    "int0": "intp", "uint0": "uintp", "bool8": "bool_", "str0": "str_", "bytes0": "bytes_",
}  # fmt: skip

_PICTURES = ("bytescale", "imread", "imresize", "imrotate", "imsave", "toimage")

ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(func: Callable[..., Any]) -> ArgSpec:
    """`inspect.getargspec`, which Python 3.11 removed."""
    found = inspect.getfullargspec(func)
    return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)


def _sized(a: Any, dtype: Any = None) -> Any:
    return np.asarray(a, dtype=np.float64 if dtype is None else dtype)


def _sorted_rows(a: Any) -> Any:
    return np.sort(a, axis=0)


def _nothing(*_given: Any) -> None:
    """`sys.setdefaultencoding`: text is Unicode now, whatever it is called with."""


# Attributes of modules: only asked for where the module lacks them.
MODULES: dict[str, Mapping[str, Any]] = {
    "numpy": _NUMPY
    | {"asscalar": lambda a: a.item(), "asfarray": _sized, "msort": _sorted_rows},
    "collections": {name: f"collections.abc:{name}" for name in _ABC},
    "time": {"clock": time.process_time},
    "inspect": {"getargspec": getargspec},
    "itertools": {
        "izip": zip, "imap": map, "ifilter": filter, "izip_longest": "zip_longest",
        "ifilterfalse": "filterfalse",
    },
    "string": {
        "letters": string.ascii_letters, "lowercase": string.ascii_lowercase,
        "uppercase": string.ascii_uppercase, "maketrans": str.maketrans, "atoi": int,
        "atof": float, "join": lambda words, between=" ": between.join(words),
        "strip": lambda text, *given: text.strip(*given),
        "replace": lambda text, *given: text.replace(*given),
        "split": lambda text, *given: text.split(*given),
        "lower": lambda text: text.lower(), "upper": lambda text: text.upper(),
    },
    "sys": {"maxint": sys.maxsize, "setdefaultencoding": _nothing},
    "os": {"getcwdu": "getcwd", "errno": errno},
    "fractions": {"gcd": math.gcd},
    "base64": {"encodestring": "encodebytes", "decodestring": "decodebytes"},
    "cgi": {"escape": "html:escape"},
    "types": {"StringType": str, "ListType": list, "DictType": dict, "IntType": int,
              "FloatType": float, "TupleType": tuple, "NoneType": type(None)},
    "urllib": {name: f"urllib.parse:{name}" for name in ("quote", "unquote", "urlencode")}
    | {name: f"urllib.request:{name}" for name in ("urlopen", "urlretrieve")},
    # SciPy had NumPy's names too; of negative numbers its roots and logarithms were complex. They
    # are asked for where `scipy` itself stands before them, as other modules have them still.
    "scipy": {name: f"numpy:{name}" for name in np.__all__}
    | {name: getattr(np.emath, name) for name in np.emath.__all__},
    "scipy.misc": {name: f"refluid.porting.old_scipy:{name}" for name in _PICTURES}
    | {"logsumexp": "scipy.special:logsumexp", "comb": "scipy.special:comb",
       "factorial": "scipy.special:factorial"},
    "PIL.Image": {"ANTIALIAS": "LANCZOS", "LINEAR": "BILINEAR", "CUBIC": "BICUBIC"},
}  # fmt: skip


def _as_fetched(array: Any) -> Any:
    from refluid.core.fetched import fetched

    return fetched(array)


# Attributes of other objects, by what the object has to have instead.
METHODS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "iteritems": ("items", lambda one: lambda: iter(one.items())),
    "itervalues": ("values", lambda one: lambda: iter(one.values())),
    "iterkeys": ("keys", lambda one: lambda: iter(one.keys())),
    "viewitems": ("items", lambda one: one.items),
    "viewvalues": ("values", lambda one: one.values),
    "viewkeys": ("keys", lambda one: one.keys),
    "has_key": ("keys", lambda one: one.__contains__),
    "next": ("__next__", lambda one: one.__next__),
    "isAlive": ("is_alive", lambda one: one.is_alive),
    "tostring": ("tobytes", lambda one: one.tobytes),
    "getchildren": ("iterfind", lambda one: lambda: list(one)),
    "ptp": ("argmax", lambda one: lambda *given: _as_fetched(one).ptp(*given)),
    "itemset": ("itemsize", lambda one: _as_fetched(one).itemset),
    "newbyteorder": ("byteswap", lambda one: _as_fetched(one).newbyteorder),
    "func_name": ("__name__", lambda one: one.__name__),
    "message": ("with_traceback", str),
    # A text that Python 2 would have had to decode is text already.
    "decode": ("encode", lambda one: lambda *_given, **_options: one),
}

# Builtins of Python 2.
BUILTINS: dict[str, Any] = {
    "xrange": range,
    "unicode": str,
    "basestring": str,
    "long": int,
    "unichr": chr,
    "raw_input": input,
    "reduce": functools.reduce,
    "intern": sys.intern,
    "cmp": lambda one, other: (one > other) - (one < other),
    "reload": "importlib:reload",
    "file": open,
    "execfile": "refluid.porting.old_names:execfile",
}


def _mapped(function: Callable[..., Any] | None, *rows: Iterable[Any]) -> list[Any]:
    if len(rows) == 1 and function is not None:
        return [function(one) for one in rows[0]]
    together = itertools.zip_longest(*rows)
    return [one if function is None else function(*one) for one in together]


def _filtered(function: Callable[[Any], Any] | None, rows: Any) -> Any:
    kept = list(filter(function, rows))
    if isinstance(rows, str):
        return "".join(kept)
    return tuple(kept) if isinstance(rows, tuple) else kept


# Builtins that gave lists.
LISTS: dict[str, Any] = {
    "map": _mapped,
    "filter": _filtered,
    "zip": lambda *rows: list(zip(*rows, strict=False)),
    "range": lambda *given: list(range(*given)),
}
# Methods of dictionaries that gave lists; of text and its files, whose bytes were text too, as were
# those of compressed files that such a module opens.
WITH_LISTS, WITH_BYTES = ("keys", "values", "items"), ("encode", "join", "write", "open")
COMPRESSING = ("bz2", "gzip", "lzma")
# Builtins whose bytes were text too.
_FILES = "refluid.porting.python2_files"
FILES = {"open": f"{_FILES}:opened", "file": f"{_FILES}:opened", "print": f"{_FILES}:printed"}

# Modules of Python 2, by their present names.
RENAMED = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SocketServer": "socketserver",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "commands": "subprocess",
    "copy_reg": "copyreg",
    "httplib": "http.client",
    "thread": "_thread",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}


def execfile(path: str, given: dict[str, Any] | None = None) -> None:
    """Python 2's `execfile`, into a namespace of its own where none is given."""
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), {} if given is None else given)


def _load_yaml(yaml: ModuleType) -> Callable[..., Any]:
    def load(stream: Any, Loader: Any = None) -> Any:  # noqa: N803
        return yaml.load(stream, Loader or yaml.FullLoader)

    return load


def _safe_load(yaml: ModuleType) -> Callable[..., Any]:
    return lambda stream: yaml.YAML(typ="safe", pure=True).load(stream)


def _unpack(struct: ModuleType) -> Callable[..., Any]:
    def unpack(layout: Any, data: Any) -> Any:
        return struct.unpack(layout, data.encode() if isinstance(data, str) else data)

    return unpack


def _load_pickle(pickle: ModuleType) -> Callable[..., Any]:
    def load(file: Any, **options: Any) -> Any:
        from refluid.porting.python2_files import binary_of

        binary = binary_of(file)
        start = binary.tell() if hasattr(binary, "seekable") and binary.seekable() else None
        try:
            return pickle.load(binary, **options)
        except UnicodeDecodeError:
            if options or start is None:
                raise
            binary.seek(start)
            return pickle.load(binary, encoding="latin1")  # what Python 2 wrote

    return load


def _dump_pickle(pickle: ModuleType) -> Callable[..., Any]:
    def dump(value: Any, file: Any, *given: Any, **options: Any) -> None:
        from refluid.porting.python2_files import binary_of

        pickle.dump(value, binary_of(file), *given, **options)

    return dump


# Arguments of NumPy's functions that have another name now, and which functions have them.
KEYWORDS: dict[str, tuple[str, Container[str]]] = {
    "newshape": ("shape", ("reshape",)),
    "interpolation": ("method", ("percentile", "quantile", "nanpercentile", "nanquantile")),
}

# What still exists and refuses what it once took: made of the module, and asked in any case.
CHANGED: dict[tuple[str, str], Callable[[ModuleType], Any]] = {
    ("yaml", "load"): _load_yaml,
    ("ruamel.yaml", "safe_load"): _safe_load,
    ("struct", "unpack"): _unpack,
    ("pickle", "load"): _load_pickle,
    ("pickle", "dump"): _dump_pickle,
    ("numpy", "array"): lambda numpy: array(numpy, "array"),
    ("numpy", "asarray"): lambda numpy: array(numpy, "asarray"),
    ("numpy", "copy"): copy,
    ("numpy", "fromstring"): from_string,
    ("numpy", "nonzero"): lambda numpy: places(numpy, "nonzero"),
    ("numpy", "where"): lambda numpy: places(numpy, "where"),
    **{("numpy", name): functools.partial(stacking, name=name) for name in STACKS},
    **{("numpy", name): functools.partial(saving, name=name) for name in SAVES},
    ("numpy.random", "choice"): lambda random: drawing(random, "choice"),
    ("numpy.random", "permutation"): lambda random: drawing(random, "permutation"),
}
