"""Runs parts of a published file as they stand in it, where importing the file would need a stack that the part does not.

A part is found in the syntax tree of the file and compiled from its lines; what it names and the file imports is handed in.
Annotations are not evaluated. Nothing of the part is changed.
"""

import __future__
import ast
import functools
import pathlib

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def load(path, *names, **given):
    """The namespace after the top-level definitions and assignments of these names ran, in the order of the file."""
    wanted = [node for node in _tree(path).body if _names(node) & set(names)]
    missing = set(names) - set().union(*map(_names, wanted))
    if missing:
        raise LookupError(f"{path} has no {', '.join(sorted(missing))}")
    return _run(path, wanted, given)


def function(path, place, **given):
    """A function at a place such as "Class.method" or "function.inner", as a plain function."""
    return _run(path, [_find(path, place)], given)[place.split(".")[-1]]


def statements(path, place, wanted, **given):
    """A function of keyword arguments that runs the statements of `place` whose text `wanted` accepts; it gives back the names after them."""
    found = [node for node in ast.walk(_find(path, place)) if isinstance(node, ast.stmt)]
    lines = [node for node in found if wanted(ast.unparse(node))]
    # Those within another that is wanted run with it.
    lines = [node for node in lines if not any(node is not other and node in ast.walk(other) for other in lines)]
    if not lines:
        raise LookupError(f"{path} has no such statements in {place}")
    code = _compile(path, sorted(lines, key=lambda node: node.lineno))

    def run(**names):
        space = {**given, **names}
        exec(code, space)
        return space

    return run


def _run(path, nodes, given):
    # The name of a module that is there, as dataclasses look it up.
    space = {"__name__": __name__, **given}
    exec(_compile(path, nodes), space)
    return space


def _compile(path, nodes):
    module = ast.Module(body=list(nodes), type_ignores=[])
    return compile(module, str(path), "exec", __future__.annotations.compiler_flag, dont_inherit=True)


@functools.cache
def _tree(path):
    return ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))


def _names(node):
    if isinstance(node, DEFINITIONS):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@functools.cache
def _find(path, place):
    node = _tree(path)
    for name in place.split("."):
        inside = [one for one in ast.walk(node) if isinstance(one, DEFINITIONS) and one.name == name and one is not node]
        if not inside:
            raise LookupError(f"{path} has no {place}")
        node = inside[0]
    return node
