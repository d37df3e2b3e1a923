"""One question about one folder, from looking to the answer: what a model with three tools would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnlog.agents.demo import answer
from turnlog.agents.demo.answer import FolderNote, Quote, Scope
from turnlog.agents.demo.bounds import (
    FAILURES_SHOWN_MAX,
    OUTPUT_CHARS_MAX,
    QUOTE_LINES_MAX,
    QUOTES_MAX,
    SUBAGENTS_MAX,
)
from turnlog.agents.demo.describe import first_paragraph, front_page, kinds, title
from turnlog.agents.demo.files import File, Folder, Listing, Parts, Problem, Text
from turnlog.agents.demo.question import Question
from turnlog.agents.demo.search import Found, Passage, named, rank, search
from turnlog.agents.demo.shown import bounded, code, counted, shown_line, shown_name
from turnlog.agents.demo.targets import Target, group, resolve
from turnlog.agents.demo.words import Term
from turnlog.agents.demo.work import Call, Work


@dataclass(frozen=True)
class Inquiry:
    """Looks into `folder` for an answer to `question`, and shows each step through `work`."""

    folder: Folder
    work: Work
    question: Question

    async def run(self, listing: Listing) -> str:
        """The answer, in Markdown. `listing` is that of the whole folder."""
        target = resolve(self.question, listing)
        question = replace(self.question, terms=target.terms)
        scope = Scope(target.listing, target.unknown)
        match question.want:
            case "help":
                return answer.help_answer(self.folder.root.name, listing)
            case "overview":
                return await self._overview(target, scope)
            case "list" if not question.terms:
                return answer.list_answer(target.listing.files, target.base, scope)
            case "file":
                return await self._files(question, target, scope)
            case "count" if not question.terms:
                return await self._count(question, target, scope)
            case _ if not question.terms:
                return await self._overview(target, scope)
            case _:
                return await self._search(question, target, scope)

    # --- searching ---------------------------------------------------------------------------------------------

    async def _search(self, question: Question, target: Target, scope: Scope) -> str:
        found = Found()
        own, groups = group(target)
        if own or not groups:
            found.add(await self._search_in(target.base, own, question.terms, None))
        for name, files in groups[: SUBAGENTS_MAX - 1]:
            found.add(await self._subagent_search(name, files, question))
        if rest := groups[SUBAGENTS_MAX - 1 :]:
            found.add(await self._subagent_search(*_merged(rest), question))
        passages = rank(found, question.terms, prefer_definitions=question.want == "define")
        if not passages:
            names = [file for file in target.listing.files if named(file, question.terms)]
            return answer.nothing_answer(question, found, scope, names)
        if question.want == "count":
            return answer.matches_answer(question, found, scope)
        quotes = [quote for passage in _diverse(passages) if (quote := await self._quote(passage)) is not None]
        return answer.found_answer(question, found, passages, quotes, scope)

    async def _subagent_search(self, name: Parts, files: Sequence[File], question: Question) -> Found:
        """One sub-agent searches one folder and reports."""
        where = _folder_name(name)
        agent = await self.work.begin_subagent(where, f"Looking through {where}")
        found = await self._search_in(name, files, question.terms, agent)
        passages = rank(found, question.terms, prefer_definitions=question.want == "define")
        if passages:
            best = passages[0]
            lines = counted(sum(found.matches.values()), "matching line")
            report = f"{lines} in {code(where)}, the best at {code(f'{best.file.path}:{best.best.line}')}."
        else:
            report = f"Nothing in {code(where)} ({counted(found.searched, 'file')} searched)."
        await self.work.end_subagent(agent, report)
        return found

    async def _search_in(self, name: Parts, files: Sequence[File], terms: Sequence[Term], parent: str | None) -> Found:
        where, wanted = _folder_name(name), " ".join(shown_name(term.text) for term in terms)
        result = await self.work.use(
            Call(
                name="search_files",
                title=f"Searching {where} for {wanted}"[:200],
                path=name,
                arguments={"path": _argument(name), "query": wanted},
                parent=parent,
            ),
            lambda: search(self.folder, files, terms),
            _tell_found,
        )
        if isinstance(result, Problem):
            return Found(problems=[result])
        for trouble in result.problems[:FAILURES_SHOWN_MAX]:
            await self.work.failed_file(trouble, parent)
        return result

    async def _quote(self, passage: Passage) -> Quote | None:
        """Read the lines around a passage; None when the file cannot be read any more."""
        point = passage.best.line
        first = max(1, point - 2)
        last = first + QUOTE_LINES_MAX - 1
        text = await self._read(passage.file, None, first, last)
        if text is None or len(text.lines) < point:
            return None
        return trimmed(Quote(passage.file, first, text.lines[first - 1 : last], point))

    async def _read(self, file: File, parent: str | None, first: int, last: int) -> Text | None:
        """Read a file to show its lines `first` to `last`; None when it has no text or cannot be read."""
        result = await self.work.use(
            Call(
                name="read_file",
                title=f"Reading {file.path}" + (f" from line {first}" if first > 1 else ""),
                path=file.parts,
                arguments={"path": file.path, "from_line": first, "to_line": last},
                parent=parent,
            ),
            lambda: self.folder.read(file),
            lambda text: _tell_lines(text, first, last) if isinstance(text, Text) else f"not text: {text}",
        )
        return result if isinstance(result, Text) else None

    # --- describing --------------------------------------------------------------------------------------------

    async def _overview(self, target: Target, scope: Scope) -> str:
        own, groups = group(target)
        front = await self._front(own, None)
        notes = [await self._subagent_describe(name, files) for name, files in groups[: SUBAGENTS_MAX - 1]]
        if rest := groups[SUBAGENTS_MAX - 1 :]:
            notes += [FolderNote(name, files) for name, files in rest]
        name = "/".join(target.base) or self.folder.root.name or "/"
        return answer.overview_answer(name, front, own, notes, scope)

    async def _subagent_describe(self, name: Parts, files: Sequence[File]) -> FolderNote:
        """One sub-agent finds out what one folder is about."""
        where = _folder_name(name)
        agent = await self.work.begin_subagent(where, f"Getting to know {where}")
        await self._list(name, agent)
        front = await self._front(sorted(files, key=lambda file: (len(file.parts), file.parts)), agent)
        about, place = "", ""
        if front is not None:
            _, quote = front
            about, place = _sentence(quote.lines), quote.place
        await self.work.end_subagent(agent, f"{code(where)} holds {kinds(files)}. {about}".strip())
        return FolderNote(name, files, about, place)

    async def _front(self, files: Sequence[File], parent: str | None) -> tuple[str, Quote] | None:
        """The title and first paragraph of the file that introduces a folder."""
        file = front_page(files)
        text = None if file is None else await self._read(file, parent, 1, 40)
        if file is None or text is None:
            return None
        line, lines = first_paragraph(text.lines, file)
        if not lines:
            return None
        return shown_line(title(text.lines) or file.path), Quote(file, line, lines, line)

    async def _list(self, parts: Parts, parent: str | None) -> Listing | Problem:
        return await list_folder(self.folder, self.work, parts, parent)

    async def _files(self, question: Question, target: Target, scope: Scope) -> str:
        """What stands in the files (or the folder) that the question names."""
        if not target.named:
            if target.base:
                return await self._overview(target, scope)
            return answer.no_file_answer(scope, self.question.paths)
        parts = []
        for file in target.named[:QUOTES_MAX]:
            text = await self._read(file, None, 1, QUOTE_LINES_MAX)
            parts.append(answer.file_part(file, text))
        return answer.files_answer(parts, target.named[QUOTES_MAX:], scope)

    async def _count(self, question: Question, target: Target, scope: Scope) -> str:
        lines = 0
        if question.counted.startswith("line"):
            lines = await self._count_lines(target)
        return answer.count_answer(question, target.listing.files, len(target.listing.folders), lines, scope)

    async def _count_lines(self, target: Target) -> int:
        def count() -> int:
            total = 0
            for file in target.listing.files:
                if self.folder.stop.is_set() or self.folder.read_enough:
                    break
                try:
                    text = self.folder.read(file)
                except OSError:
                    continue  # The listing tells of what cannot be opened; a count is of what can.
                total += len(text.lines) if isinstance(text, Text) else 0
            return total

        where = _folder_name(target.base)
        call = Call(
            name="read_file",
            title=f"Counting lines in {where}",
            path=target.base,
            arguments={"path": _argument(target.base)},
        )
        result = await self.work.use(call, count, lambda total: counted(total, "line"))
        return 0 if isinstance(result, Problem) else result


async def list_folder(folder: Folder, work: Work, parts: Parts, parent: str | None = None) -> Listing | Problem:
    """List a folder as a step; folders inside that cannot be listed become failed steps."""
    where = _folder_name(parts)
    call = Call(
        name="list_files", title=f"Listing {where}", path=parts, arguments={"path": _argument(parts)}, parent=parent
    )
    result = await work.use(call, lambda: folder.listing(parts), _tell_listing)
    if isinstance(result, Listing):
        for trouble in result.problems[:FAILURES_SHOWN_MAX]:
            await work.failed_file(trouble, parent)
    return result


def _folder_name(parts: Parts) -> str:
    return shown_name("/".join(parts)) + "/" if parts else "this folder"


def _argument(parts: Parts) -> str:
    return shown_name("/".join(parts)) or "."


def _merged(groups: Sequence[tuple[Parts, Sequence[File]]]) -> tuple[Parts, list[File]]:
    """The folders left for the last sub-agent, under the name of the first of them."""
    name = groups[0][0]
    if len(groups) > 1:
        name = (*name[:-1], f"{name[-1]} and {counted(len(groups) - 1, 'more folder')}")
    return name, [file for _, files in groups for file in files]


def _diverse(passages: Sequence[Passage]) -> list[Passage]:
    """The best passages to quote: at most two of one file, none that another one's quote shows already."""
    chosen: list[Passage] = []
    for passage in passages:
        if passage.score < passages[0].score / 4 or len(chosen) == QUOTES_MAX:
            break
        same = [other.best.line for other in chosen if other.file == passage.file]
        if len(same) < 2 and all(abs(line - passage.best.line) >= QUOTE_LINES_MAX for line in same):
            chosen.append(passage)
    return chosen


def trimmed(quote: Quote) -> Quote:
    """A quote that begins and ends with the paragraph or block around its point, and with no blank line."""
    before = quote.point - quote.line
    skipped = next((at + 1 for at in range(before - 1, -1, -1) if not quote.lines[at].strip()), 0)
    lines, start = list(quote.lines[skipped:]), quote.line + skipped
    after = quote.point - start + 3
    blank = next((at for at in range(after, len(lines)) if not lines[at].strip()), len(lines))
    lines = lines[:blank]
    while lines and not lines[-1].strip():
        lines.pop()
    return Quote(quote.file, start, lines, quote.point)


def _sentence(lines: Sequence[str]) -> str:
    """The first sentence of a paragraph, on one line."""
    text = " ".join(shown_line(line).strip() for line in lines)
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def _tell_listing(listing: Listing) -> str:
    lines = [f"{file.path} {file.bytes}" for file in listing.files]
    return bounded(
        [f"{counted(len(listing.files), 'file')} {counted(len(listing.folders), 'folder')}", *lines], OUTPUT_CHARS_MAX
    )


def _tell_found(found: Found) -> str:
    head = f"{counted(sum(found.matches.values()), 'matching line')} in {counted(found.searched, 'file')}"
    lines = [f"{file.path}:{hit.line}: {hit.text}" for file, hits in found.hits.items() for hit in hits]
    return bounded([head, *lines], OUTPUT_CHARS_MAX)


def _tell_lines(text: Text, first: int, last: int) -> str:
    lines = [f"{number}: {shown_line(line)}" for number, line in enumerate(text.lines[first - 1 : last], first)]
    return bounded([f"{counted(len(text.lines), 'line')} in all", *lines], OUTPUT_CHARS_MAX)
