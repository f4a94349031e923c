"""Imports the SDK's packages in part: what their `__init__` lists is imported when it is asked for.

A client takes 3,400 modules, most of them types of services that nobody calls here: 2.2 to 2.9 s and 80 MB
measured, paid by each agent before its first prompt. What a request through the Messages API needs is 330 of
them, 0.7 s and 44 MB. A package keeps its names, each taken from where `__init__` would have taken it. An
`__init__` that does anything but import is run as it is.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_SDK: Final = "anthropic"
_CALLED_LATE: Final = {"anthropic.lib._tracing": ("finish_api_call_span",)}
"""Functions that the SDK's core imports by name, and calls only for a request that is traced."""


def install() -> None:
    """Make the SDK's packages lazy, from its first import on. Does nothing to what is imported already.

    Not where its debug log is asked for, which its root's `__init__` sets up.
    """
    if not os.environ.get("ANTHROPIC_LOG"):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _SDK:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and spec.submodule_search_locations and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _LazyPackage(spec.loader)
        return spec


class _LazyPackage(Loader):
    """Loads a package without the modules that its `__init__` imports from, if it can."""

    def __init__(self, eager: SourceFileLoader) -> None:
        self._eager = eager
        self._running_whole = threading.RLock()
        self._is_run_whole = False

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__
        imports = _imports(ast.parse(self._eager.get_data(self._eager.path)), root=package == _SDK)
        if imports is None:
            self._eager.exec_module(module)
            return

        def __getattr__(name: str) -> Any:  # noqa: N807 - PEP 562
            if name in imports:
                source, attribute = imports[name]
                late = name in _CALLED_LATE.get(package, ())
                found = (_called_late if late else _imported)(source, attribute, package)
                setattr(module, name, found)
                return found
            if package == _SDK and not name.startswith("_"):
                # From a star import, or no name of the SDK at all: only the whole `__init__` knows.
                self._run_whole(module)
                if name in module.__dict__:
                    return module.__dict__[name]
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)

        module.__dict__["__getattr__"] = __getattr__
        if package != _SDK:  # what a star import of the package asks for
            module.__dict__["__all__"] = [name for name in imports if not name.startswith("_")]

    def _run_whole(self, module: ModuleType) -> None:
        """Run the root's `__init__` as it is, once; not again within it, where its modules ask too."""
        with self._running_whole:
            if not self._is_run_whole:
                self._is_run_whole = True
                self._eager.exec_module(module)


def _imported(source: str, attribute: str | None, package: str) -> Any:
    module = importlib.import_module(source, package)
    return module if attribute is None else getattr(module, attribute)


def _called_late(source: str, attribute: str | None, package: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _imported(source, attribute, package)(*args, **kwargs)

    return call


def _imports(init: ast.Module, *, root: bool) -> dict[str, tuple[str, str | None]] | None:
    """Each name that `init` imports: the module it is of, as `import_module` takes it, and its name there.

    A module itself has no name there. None if `init` does more than import from its own modules, or gives
    something the name of one of them: to import that module would then put it in that name's place. What else
    the root does is left out: it sets up the SDK's debug log and tells its classes to be of the root.
    """
    names: dict[str, tuple[str, str | None]] = {}
    for statement in init.body:
        match statement:
            case ast.ImportFrom(module="__future__") | ast.Expr(value=ast.Constant()):
                continue
            case ast.ImportFrom(module=None, names=aliases, level=1):
                names |= {alias.asname or alias.name: (f".{alias.name}", None) for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases, level=1):
                for alias in aliases:
                    if alias.name != "*":
                        names[alias.asname or alias.name] = (f".{module}", alias.name)
                    elif not root:
                        return None
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                continue
            case _ if not root:
                return None
    modules = {source[1:].partition(".")[0] for source, _ in names.values()}
    hidden = any(name in modules for name, (_, attribute) in names.items() if attribute is not None)
    return None if hidden else names
