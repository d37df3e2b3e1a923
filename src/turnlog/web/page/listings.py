"""Code in a message: its lines as HTML, with its words marked where that is known to be quick."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import nh3
from markupsafe import escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

LANGUAGES: Final = frozenset(
    {
        *("bash", "c", "c++", "console", "cpp", "css", "diff", "docker", "dockerfile", "go", "golang", "graphql"),
        *("haskell", "html", "ini", "java", "javascript", "js", "json", "jsx", "kotlin", "lua", "markdown", "md"),
        *("perl", "php", "powershell", "py", "python", "r", "rb", "rs", "ruby", "rust", "scala", "sh", "shell"),
        *("sql", "swift", "toml", "ts", "tsx", "typescript", "xml", "yaml", "yml", "zsh"),
    }
)
"""Languages whose code is coloured. Of hundreds there are, these are measured with code that is made to be slow."""

_formatter: Final = HtmlFormatter(nowrap=True)


@lru_cache(maxsize=len(LANGUAGES))
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False)


def coloured(text: str, language: str) -> str:
    """Code in one of `LANGUAGES` with its words marked, line for line the same."""
    html = str(highlight(text, _lexer(language), _formatter)).removesuffix("\n")
    html = nh3.clean(html, tags={"span"}, attributes={"span": {"class"}})
    return html if html.count("\n") == text.count("\n") else str(escape(text))
