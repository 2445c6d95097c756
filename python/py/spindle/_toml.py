"""Writes a mapping as TOML in the mapping's order, since the order of a sweep's axes decides the order of points."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def dumps(tree: Mapping[str, Any]) -> str:
    """Returns the mapping as TOML, one entry per line, with nested tables inline."""
    return "".join(f"{_key(k)} = {_value(v, k)}\n" for k, v in tree.items() if v is not None)


def value(item: Any) -> str:
    """Returns a value as ``--set`` accepts it: text unchanged, any other value as TOML."""
    return item if isinstance(item, str) else _value(item, "")


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key)
    return key if bare else _text(key)


def _text(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}

    def one(c: str) -> str:
        if c in escapes:
            return escapes[c]
        return f"\\u{ord(c):04X}" if ord(c) < 0x20 or ord(c) == 0x7F else c

    return '"' + "".join(map(one, text)) + '"'


def _value(item: Any, key: str) -> str:
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, Integral):
        return repr(int(item))
    if isinstance(item, Real):
        return repr(float(item))
    if isinstance(item, Mapping):
        entries = (f"{_key(k)} = {_value(v, k)}" for k, v in item.items() if v is not None)
        return "{ " + ", ".join(entries) + " }"
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(_value(i, key) for i in item) + "]"
    wants = "text, a number, true or false, a list or a mapping"
    raise TypeError(f"{key}: found {type(item).__name__}, want {wants}")
