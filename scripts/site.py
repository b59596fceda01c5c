"""For the documentation site: the examples are part of it, and links that lead to them from a page still do."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Copy the examples into the site as they are."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """In the repository, the examples lie beside docs/; in the site, they lie inside."""
    return markdown.replace("](../examples/", "](examples/")
