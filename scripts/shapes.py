"""For the API pages: shapes such as `Float[Array, "c *n"]` are shown as they are written.

A string in an annotation may be a type that is not defined yet, so the reader of the sources takes `"c *n"` for a
product. Quoted twice, it is read as a string.
"""

import ast
from typing import Any

import griffe

ARRAYS = {"Bool", "Complex", "Float", "Int", "Num", "Shaped", "UInt8"}


class Shapes(griffe.Extension):
    """Quotes the shapes before a module is read."""

    def on_module_node(self, *, node: ast.AST | griffe.ObjectNode, **_: Any) -> None:
        """Called with the syntax tree of every module."""
        if not isinstance(node, ast.AST):
            return
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in ARRAYS:
                for leaf in ast.walk(part.slice):
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                        leaf.value = repr(leaf.value)
