"""What the API offers, as one table: the OpenAPI document is made of it, requests are checked by it, tests walk it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from turnlog.folds.history import Profile
from turnlog.journal import shapes
from turnlog.journal.follow import SEQ_MAX
from turnlog.limits import AUDIT_PAGE, PAGE_ROWS, PAGE_ROWS_MAX
from turnlog.web.api.bodies import (
    GivenCompaction,
    GivenDecision,
    GivenFork,
    GivenInterrupt,
    GivenMessage,
    GivenRepair,
    GivenRetry,
    GivenSettings,
    GivenTruncation,
    GivenUndo,
)
from turnlog.web.api.operation import JSON, SSE, Answer, Operation, Parameter, as_accepted, as_json

_LIMIT: Final = Parameter(
    "limit",
    f"How many at the most, {PAGE_ROWS} when left out.",
    Annotated[int, msgspec.Meta(ge=1, le=PAGE_ROWS_MAX)],
)
_LIMIT_AUDIT: Final = Parameter(
    "limit",
    f"How many at the most, {AUDIT_PAGE} when left out.",
    Annotated[int, msgspec.Meta(ge=1, le=PAGE_ROWS_MAX)],
)
_BEFORE: Final = Parameter("before", "The `next` of the page before this one.")
_AFTER_PAGE: Final = Parameter("after", "The `next` of the page before this one.")
_AFTER: Final = Parameter("after", "A cursor `epoch.seq`, or a seq: what follows it is given. 0 when left out.")
_LAST_EVENT: Final = Parameter(
    "Last-Event-ID", "The id of the last event that was received; it goes before `after`.", place="header"
)

_LIST_ABOUT: Final = "Pages are bounded in rows and in bytes: a page may have fewer than `limit`, and `next` goes on."
_TIMELINE_ABOUT: Final = (
    "Entries are flat and in order; `parent` nests them, and the parent of an entry may be on a page before. A page "
    "holds at most `limit` entries, and fewer when their bytes would be too many. While the turn is open, follow the "
    "thread's events from `at` instead of reading pages again."
)
_STREAM_ABOUT: Final = (
    "With `Accept: text/event-stream` a stream: the events behind the cursor, each open draft whole, then everything "
    "as it becomes durable. A stream ends with `bye` when the server stops; connect again with `Last-Event-ID`. A "
    "cursor that proves nothing here is answered by `reset`. A stream takes no notice of `limit`. Else a page of "
    "events as a document: follow from its `at`."
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        id="listThreads",
        method="GET",
        path="/api/threads",
        summary="Threads: pinned ones, then the last changed first",
        query=(_LIMIT, _BEFORE),
        answers=as_json("A page of threads.", shapes.Threads),
    ),
    Operation(
        id="getThread",
        method="GET",
        path="/api/threads/{thread}",
        summary="One thread's row",
        answers=as_json("The row.", shapes.ThreadRow),
        problems=(404,),
    ),
    Operation(
        id="setThread",
        method="PATCH",
        path="/api/threads/{thread}",
        summary="Rename or pin a thread",
        about="An empty title gives the title back to the first message. Pinned threads stand first in lists.",
        body=GivenSettings,
        answers=as_json("The row behind it.", shapes.ThreadRow),
        problems=(404, 409, 413, 415),
    ),
    Operation(
        id="truncateThread",
        method="POST",
        path="/api/threads/{thread}/truncate",
        summary="Take a turn and everything begun after it out of the conversation",
        about="It all stays, hidden, and can be read. Refused (409) while a turn that would go is open. To edit a "
        "message, submit the new one with `edit_of` instead: both are one write then.",
        body=GivenTruncation,
        answers=as_json("It is out.", shapes.Truncation),
        problems=(404, 409, 413, 415),
    ),
    Operation(
        id="forkThread",
        method="POST",
        path="/api/threads/{thread}/fork",
        summary="Copy a thread, up to the end of a turn, into a new one",
        about="The same fork again is answered by the one that is there, or goes on where it was broken off: name it "
        "with `to` to be able to ask again.",
        body=GivenFork,
        body_required=False,
        answers={201: Answer("The new thread's row.", {JSON: shapes.ThreadRow})},
        problems=(404, 409, 413, 415),
    ),
    Operation(
        id="compactThread",
        method="POST",
        path="/api/threads/{thread}/compact",
        summary="Let a summary stand for the beginning of a thread in what an agent is given",
        body=GivenCompaction,
        answers=as_json("It stands.", shapes.ThreadEvent),
        problems=(404, 409, 413, 415),
    ),
    Operation(
        id="listTurns",
        method="GET",
        path="/api/threads/{thread}/turns",
        summary="A thread's turns, the newest first",
        query=(_LIMIT, _BEFORE),
        answers=as_json("A page of turns.", shapes.Turns),
        problems=(404,),
        tag="turns",
    ),
    Operation(
        id="submitMessage",
        method="POST",
        path="/api/threads/{thread}/turns",
        summary="Submit a message, which begins a turn",
        about="The answer comes when the message is durable, and not before; the turn goes on whoever listens. A "
        "thread that does not exist yet is created. An answer that was lost: send the same `key` again.",
        body=GivenMessage,
        answers=as_accepted("The submission is durable.", shapes.Submission),
        problems=(409, 413, 415),
        tag="turns",
    ),
    Operation(
        id="getLatestTurn",
        method="GET",
        path="/api/threads/{thread}/turns/latest",
        summary="The trace of a thread's newest turn",
        about=_TIMELINE_ABOUT,
        query=(_LIMIT, _AFTER_PAGE),
        answers=as_json("A page of the turn's trace.", shapes.Timeline),
        problems=(404,),
        tag="turns",
    ),
    Operation(
        id="getTurn",
        method="GET",
        path="/api/threads/{thread}/turns/{turn}",
        summary="A turn's trace",
        about=_TIMELINE_ABOUT,
        query=(_LIMIT, _AFTER_PAGE),
        answers=as_json("A page of the turn's trace.", shapes.Timeline),
        problems=(404,),
        tag="turns",
    ),
    Operation(
        id="interruptTurn",
        method="POST",
        path="/api/threads/{thread}/turns/{turn}/interrupt",
        summary="Ask for the end of an open turn",
        about="Whichever process works on the turn finds the request. A second one changes nothing.",
        body=GivenInterrupt,
        body_required=False,
        answers=as_accepted("The request is durable.", shapes.Request),
        problems=(404, 409, 413, 415),
        tag="turns",
    ),
    Operation(
        id="retryTurn",
        method="POST",
        path="/api/threads/{thread}/turns/{turn}/retry",
        summary="Ask an interrupted turn again",
        about="As a new turn, at most one for each; again, it gives that one as `duplicate`.",
        body=GivenRetry,
        body_required=False,
        answers=as_accepted("The new turn's submission is durable.", shapes.Submission),
        problems=(404, 409, 413, 415),
        tag="turns",
    ),
    Operation(
        id="decideApproval",
        method="POST",
        path="/api/threads/{thread}/turns/{turn}/decisions/{approval}",
        summary="Decide an approval that a turn waits for",
        about="The first decision stands; a second one is refused (409).",
        body=GivenDecision,
        answers=as_accepted("The decision is durable.", shapes.Request),
        problems=(404, 409, 413, 415),
        tag="turns",
    ),
    Operation(
        id="getItem",
        method="GET",
        path="/api/threads/{thread}/items/{seq}",
        summary="A raw model item, byte for byte as it was accepted",
        answers={
            200: Answer("The item, which never changes; `If-None-Match` takes its `ETag`.", {JSON: "RawItem"}),
            304: Answer("The client has it already.", {}),
        },
        problems=(404,),
    ),
    Operation(
        id="getTranscript",
        method="GET",
        path="/api/threads/{thread}/transcript",
        summary="What a person reads: messages, notices, and the rows of their turns",
        about=f"`limit` counts turns, of which the newest come first and stand last. {_LIST_ABOUT}",
        query=(_LIMIT, _BEFORE),
        answers=as_json("A page of the transcript.", shapes.TranscriptPage),
        problems=(404,),
    ),
    Operation(
        id="getHistory",
        method="GET",
        path="/api/threads/{thread}/history",
        summary="What an agent is given: raw items, and what was added or left out",
        query=(
            Parameter(
                "profile",
                "`responses` (the default) for the endpoint that made the items, `portable` for any other Responses "
                "endpoint, `raw` as stored.",
                Profile,
            ),
            Parameter("until", "The id of a turn, as it is: only turns submitted before it."),
            Parameter(
                "limit",
                "How many of the newest groups: a message, calls with their outputs, reasoning with what it led to. "
                "All when left out.",
                Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)],
            ),
        ),
        answers=as_json("The history.", shapes.HistoryItems),
        problems=(404,),
    ),
    Operation(
        id="getEvents",
        method="GET",
        path="/api/threads/{thread}/events",
        summary="A thread's events, as a page or as a stream",
        about=_STREAM_ABOUT,
        query=(_AFTER, _LIMIT, _LAST_EVENT),
        answers={200: Answer("A page, or a stream.", {JSON: "EventsPage", SSE: "EventFrames"})},
        problems=(404, 409),
        tag="streams",
    ),
    Operation(
        id="listNewestTurns",
        method="GET",
        path="/api/turns",
        summary="The newest turn of each thread, the last changed thread first",
        query=(
            Parameter("latest", "Must be 1: of each thread only the newest turn is listed here.", Literal["1"], True),
            _LIMIT,
            _BEFORE,
        ),
        answers=as_json("A page of turns.", shapes.NewestTurns),
        tag="turns",
    ),
    Operation(
        id="followChanges",
        method="GET",
        path="/api/changes",
        summary="Which threads change, as a stream",
        about="It begins with a `reset`: read the list of threads then. Each `change` has the rows of threads that "
        "have changed since; several changes of a thread may be one. A `reset` also comes when too much has changed.",
        answers={200: Answer("A stream.", {SSE: "ChangeFrames"})},
        tag="streams",
    ),
    Operation(
        id="auditStore",
        method="GET",
        path="/api/audit",
        summary="What of the store is not as it should be",
        about="All of it is read, or one thread. It changes nothing. A page is an audit of its own.",
        query=(
            Parameter("thread", "A thread's id, as it is: only this thread."),
            _LIMIT_AUDIT,
            _AFTER_PAGE,
        ),
        answers=as_json("Findings.", shapes.Findings),
        problems=(404,),
        tag="care",
    ),
    Operation(
        id="repairStore",
        method="POST",
        path="/api/repair",
        summary="Plan a repair, or apply the plan that was shown",
        about="The store is audited again first: a plan that is not the same any more is refused (409), with the new "
        "plan's id. What is done can be done again without effect.",
        body=GivenRepair,
        body_required=False,
        answers=as_json("The plan, and what became of it.", shapes.Repair),
        problems=(404, 409, 413, 415),
        tag="care",
    ),
    Operation(
        id="undoRepair",
        method="POST",
        path="/api/repair/undo",
        summary="Let a repair hold no longer: what it set aside is a finding again",
        body=GivenUndo,
        answers=as_json("It holds no longer.", shapes.Undone),
        problems=(404, 409, 413, 415),
        tag="care",
    ),
    Operation(
        id="getOpenApi",
        method="GET",
        path="/openapi.json",
        summary="This document",
        answers={
            200: Answer("The document.", {JSON: "Json"}),
            304: Answer("The client has it already.", {}),
        },
        tag="server",
    ),
    Operation(
        id="getHealth",
        method="GET",
        path="/healthz",
        summary="Whether the log can be written",
        answers=as_json("It can.", shapes.Health),
        public=True,
        tag="server",
    ),
    Operation(
        id="getMetrics",
        method="GET",
        path="/metrics",
        summary="Counts in the text format of Prometheus",
        answers={200: Answer("The counts.", {"text/plain": "Text"})},
        tag="server",
    ),
)
"""Every operation, in the order of the documents."""
