"""The templates, and the words they may use. Everything is escaped unless it was made as HTML here."""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from turnlog.events.clock import rfc3339
from turnlog.folds import notices
from turnlog.limits import ROW_TEXT_CHARS, SUBMISSION_BYTES_MAX
from turnlog.web.page import endings, naming, words
from turnlog.web.page.markup import Element, clean, element, in_frame
from turnlog.web.paths import path_id

_NARROWER: Final = (1, 4, 16, 64)
"""What the lengths to which texts are cut are divided by, in turn, until a leaf fits a frame: the first will do but for
signs that are written as escapes, six times as long."""

TOO_LARGE: Final = "This is too large to be shown here."


@pass_context
def _cut(context: Context, text: str, most: int = ROW_TEXT_CHARS) -> str:
    most = _length(context, most)
    return text if len(text) <= most else text[:most] + "…"


@pass_context
def _is_cut(context: Context, text: str) -> bool:
    return len(text) > _length(context, ROW_TEXT_CHARS)


def _length(context: Context, most: int) -> int:
    narrower: int = context["narrower"]
    return most // narrower


_BESIDE_BYTES: Final = 1_024
"""What stands in a submission beside its message: role, key, digest and the path of the workspace."""

_environment: Final = Environment(
    loader=PackageLoader("turnlog.web.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters |= {
    "rfc3339": rfc3339,
    "cut": _cut,
    "is_cut": _is_cut,
    "path_id": path_id,
    "kind_word": naming.KIND_WORDS.__getitem__,
    "state_word": words.STATE_WORDS.__getitem__,
    "status_word": words.STATUS_WORDS.__getitem__,
    **{
        maker.__name__: maker
        for maker in (
            endings.notice_words,
            naming.argument,
            naming.decisions,
            naming.label,
            naming.one_line,
            naming.remark,
            naming.target,
            notices.unknown_text,
            words.amount,
            words.duration,
            words.moment,
            words.queue_words,
            words.summary,
            words.usage_words,
        )
    },
}
_environment.globals |= {
    "safe_text": notices.SAFE_TEXT,
    "kept_text": notices.KEPT_TEXT,
    "retried_text": notices.RETRIED_TEXT,
    "hidden_text": notices.HIDDEN_TEXT,
    "check_text": notices.CHECK_TEXT,
    "more_text": notices.MORE_TEXT,
}
_environment.globals["message_bytes_max"] = SUBMISSION_BYTES_MAX - _BESIDE_BYTES


def leaf(name: str, id_: str, **values: Any) -> Element:
    """The fragment template `name` as a leaf whose root has the id `id_`. What would not fit a frame is cut shorter."""
    template = _environment.get_template(f"fragment/{name}.html")
    html = ""
    for narrower in _NARROWER:
        html = clean(template.render(id=id_, narrower=narrower, **values))
        if in_frame(html):
            return Element(id_, html)
    return element(html[1 : html.index(" ")], id_, TOO_LARGE)


def document(name: str, **values: Any) -> str:
    """A whole page."""
    return clean(_environment.get_template(f"{name}.html").render(**values))


def trusted(html: str) -> Markup:
    """HTML that was made here, to stand in a page as it is."""
    return Markup(html)  # noqa: S704
