"""What the site does to the pages: files of the repository that they link to come along, notebooks become pages, and
formulas become MathML, which browsers draw by themselves.

The one rule: the site asks nothing of any other machine. A link to a folder of the repository, which no page shows,
stays as text.
"""

import html
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[2]
PLACE = "repository"
"""The folder of the site for files that lie outside of docs."""
ALWAYS = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
LATER = {
    "tutorial-database.md": ("Tutorials", "A database"),
    "scale.md": ("Tutorials", "A cluster"),
    "studio.md": ("How to", "Use the studio"),
}
"""The section and the title of pages that are not written yet."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FOREIGN = re.compile(r'<script src="?https://unpkg[.]com/iframe-worker/shim"?></script>')
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds pages that the navigation does not name: those with a place of their own there, the others at its end."""
    nav: list[dict[str, Any]] = config.nav or []
    named, sections = set(re.findall(r"[\w./-]+\.md", json.dumps(nav))), {next(iter(each)): each for each in nav}
    for path in sorted(Path(config.docs_dir).glob("*.md")):
        if path.name not in named:
            section, title = LATER.get(path.name, ("Explanation", path.stem.replace("-", " ").capitalize()))
            sections[section][section].append({title: path.name})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the notebooks, and the files outside of docs that a page links to, and those that they link to."""
    for path in sorted(Path(config.docs_dir, "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=from_notebook(path)))
    waiting = [*ALWAYS]
    for file in files.documentation_pages():
        waiting += outside(file.content_string, repository_path(file.src_uri))
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not (ROOT / name).is_file():
            continue
        seen.add(name)
        if name.endswith((".md", ".py")):
            text = (ROOT / name).read_text("utf-8")
            waiting += outside(text, name) if name.endswith(".md") else []
            page = text if name.endswith(".md") else f"# {name}\n\n```python\n{text}```\n"
            files.append(File.generated(config, site_path(name), content=page))
        else:
            files.append(File.generated(config, site_path(name), abs_src_path=str(ROOT / name)))
    return files


def outside(text: str, page: str) -> Iterator[str]:
    """The files outside of docs that a page links to, as paths in the repository."""
    for _, _, target in _LINK.findall(_FENCED.sub("", text)):
        file = target.partition("#")[0]
        if file and "://" not in file and not file.startswith("mailto:"):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(page), file))
            if not name.startswith(("docs/", "..")):
                yield name


def repository_path(src_uri: str) -> str:
    """Where a page of the site lies in the repository."""
    return src_uri.removeprefix(f"{PLACE}/") if src_uri.startswith(f"{PLACE}/") else f"docs/{src_uri}"


def site_path(name: str) -> str:
    """Where a file of the repository lies in the site."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"{PLACE}/{name.removesuffix('.py')}.md" if name.endswith(".py") else f"{PLACE}/{name}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads every link to where the site has its target."""
    own = repository_path(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        file, hash_, anchor = target.partition("#")
        if not file or "://" in file:
            return match[0]
        name = posixpath.normpath(posixpath.join(posixpath.dirname(own), file))
        place = site_path(name)
        if files.get_file_from_path(place) is None:
            return match[0] if name.startswith("docs/") else f"{mark}{words}" if mark else words
        found = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        return f"{mark}[{words}]({found}{hash_}{anchor})"

    return outside_fences(markdown, lambda text: _LINK.sub(moved, text))


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts = _FENCED.split(markdown)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


# Formulas -----------------------------------------------------------------------------------------------------------


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts MathML in the place of TeX."""
    content = re.sub(
        r'<div class="arithmatex">\\\[(.*?)\\\]</div>', lambda found: block(found[1]), content, flags=re.DOTALL
    )
    return re.sub(
        r'<span class="arithmatex">\\\((.*?)\\\)</span>',
        lambda found: convert(html.unescape(found[1]).strip()),
        content,
        flags=re.DOTALL,
    )


def block(tex: str) -> str:
    made = convert(html.unescape(tex).strip(), display="block")
    return f'<div class="formula" tabindex="0" role="region" aria-label="Formula">{made}</div>'


# Search without a server -------------------------------------------------------------------------------------------


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Puts our own script in the place of one that the theme would load from another machine."""
    return _FOREIGN.sub(f'<script src="{get_relative_url("site/worker.js", page.url)}"></script>', output)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    return _FOREIGN.sub('<script src="site/worker.js"></script>', output_content)


# Notebooks ----------------------------------------------------------------------------------------------------------


def from_notebook(path: Path) -> str:
    """An executed notebook as a page: its text, its code, and what the code showed."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        parts += filter(None, map(shown, cell.get("outputs", [])))
    parts.append(f"[Download this notebook]({path.name})")
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any]) -> str:
    """What a cell showed: a picture, a table, or text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f'<div class="shown">{joined(data["image/svg+xml"])}</div>'
    if "text/html" in data:
        bare = re.sub(r"<style.*?</style>", "", joined(data["text/html"]))
        return f'<div class="shown">{re.sub(r"<table[^>]*>", "<table>", bare)}</div>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def joined(lines: str | list[str]) -> str:
    """HTML on one line, as a blank line would end it in Markdown."""
    return " ".join("".join(lines).split())
