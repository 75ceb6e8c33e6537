"""Every text that a user can read, to be read in one go: `python -m tests.strings`, or some rooms: `... results cli`.

Errors, warnings and all other texts of the source, f-strings with their expressions in braces, the help of commands,
and the page's templates and scripts. Docstrings are the reference's: `docs/reference`.
"""

import ast
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "losslens"


def texts(path):
    """Line, kind ("error", "text" or "help") and text of each in a file."""
    if path.suffix == ".py":
        return sorted(set(texts_of_module(path)))
    return [(k, "text", text) for k, line in enumerate(path.read_text("utf-8").splitlines(), 1) for text in shown(line)]


def texts_of_module(path):
    tree = ast.parse(path.read_text("utf-8"))
    hidden, errors = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstring = node.body[0].value
            hidden.add(id(docstring))
            if path.name == "commands.py" and isinstance(node, ast.FunctionDef):
                yield docstring.lineno, "help", docstring.value
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts = [*filter(None, annotations), *(node.values if isinstance(node, ast.JoinedStr) else ())]
        hidden |= {id(inner) for part in parts for inner in ast.walk(part)}
        errors |= {id(inner) for inner in ast.walk(node)} if isinstance(node, ast.Raise) else set()
    for node in ast.walk(tree):
        if id(node) not in hidden and is_read(text := text_of(node)):
            yield node.lineno, "error" if id(node) in errors else "text", text


def text_of(node):
    """Of a string, or of an f-string as it is written."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or f"{{{ast.unparse(part.value)}}}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_read(text):
    """Whether a text is more than a name, an option or a pattern."""
    return " " in text.strip() and any(letter.isalpha() for letter in text) and not text.startswith("^")


def shown(line):
    """Texts of one line of a template or a script."""
    if line.strip().startswith(("//", "*", "{#")):
        return []
    between = re.findall(r">([^<>{}]+)<", line) + [a or b for a, b in re.findall(r'"([^"]+)"|`([^`]+)`', line)]
    return [text for text in between if re.search(r"[a-z]{3,} [a-z]{2,}", text)]


def files():
    """By name, those that say something to users."""
    paths = [path for end in ("py", "js", "html") for path in SOURCE.rglob(f"*.{end}")]
    return {path.relative_to(SOURCE).as_posix(): path for path in sorted(paths)}


def main(rooms):
    """Write the texts, file by file."""
    for name, path in files().items():
        if not rooms or name.startswith(tuple(rooms)):
            lines = [f"{line} {'' if kind == 'text' else kind + ': '}{text}\n" for line, kind, text in texts(path)]
            sys.stdout.writelines([f"\n{name}\n", *lines] if lines else [])


if __name__ == "__main__":
    main(sys.argv[1:])
