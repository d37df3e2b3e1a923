"""What is drawn in a random mix: who does what next, and in which thread."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from .known import Known, lacking
from .plan import (
    ASKING,
    BUSY,
    CALM,
    CAN,
    KINDS,
    THREADS,
    TURNS_A_THREAD,
    WEIGHTS,
    Action,
    Scale,
    chosen,
    means,
)
from .turns import Pair

ENDLESS: Final = ("halt", "talk", "words", "call")
"""Scripts that end when somebody ends them."""

SPARED: Final = 0.97
"""How often people talk elsewhere than in the first thread, in which there is more calm so."""

SOON: Final = 3
"""What is lacking goes first with a chance that grows, and is one after this part of the time: a third."""


class Drawing:
    """Draws actions. `threads` are those that people talk in, `left` those that are left in peace."""

    def __init__(self, known: Known, scale: Scale) -> None:
        self.threads = [f"t{n}" for n in range(THREADS)]
        self.left: list[str] = []
        self._known = known
        self._scale = scale
        self._begun = THREADS
        self._names = 0
        self._forks: list[Action] = []
        self._forked: set[str] = set()

    def there(self) -> list[str]:
        """Threads that people talk in and that exist, and those where a turn is open."""
        open_in = [thread for thread, _ in self._known.turns.open()]
        return [*dict.fromkeys([*filter(self._exists, self.threads), *open_in])]

    def draw(self, name: str, random: Random, *, asking: bool, late: float) -> Action | None:
        """What a role does next; None when what was drawn makes no sense now.

        `late` is the part of the time that is over: the more of it, the more often what is lacking most goes first.
        """
        if random.random() < late * SOON and (lack := self._lacking(name)):
            what = random.choice(lack)
            if what in ASKING and not asking:
                return self._room(name, random)
            action = self._draw(what, name, random, asking=asking)
            if action is not None:
                return action
        can = CAN[name] if asking else CAN[name] - ASKING
        what = chosen(random, {what: weight for what, weight in WEIGHTS.items() if what in can})
        return self._draw(what, name, random, asking=asking)

    def _lacking(self, name: str) -> list[str]:
        """What this role may do for what has happened least of all that is lacking."""
        counts = self._known.counts
        able = [(counts[lack], kind) for lack in lacking(self._known, self._scale.least) for kind in means(lack, name)]
        able = [(count, kind) for count, kind in able if kind in CAN[name]]
        return [kind for count, kind in able if count == min(able)[0]]

    def _draw(self, what: str, name: str, random: Random, *, asking: bool) -> Action | None:
        thread = random.choice(self.threads)
        if what in CALM:
            thread = random.choice(self._calm() or [thread])
        elif what == "retry":
            thread = random.choice([one for one in self.threads if self._known.turns.interrupted(one, 1)] or [thread])
        draws: dict[str, Callable[[], Action | None]] = {
            "submit": lambda: self.submit(name, random.choice(self.threads[random.random() < SPARED :]), random),
            "again": lambda: self._again(name, random),
            "conflict": lambda: self._conflict(random),
            "interrupt": lambda: self._interrupt(random),
            "decide": lambda: self._approval(name, random, asking=asking),
            "retry": lambda: self._of_turn("retry", thread, self._known.turns.interrupted(thread, 6), random),
            "truncate": lambda: self._of_turn("truncate", thread, self._known.turns.ended(thread, 4), random),
            "edit": lambda: self._edit(name, thread, random),
            "fork": lambda: self._fork(thread, random),
        }
        if what in draws:
            return draws[what]()
        if not self._exists(thread):
            return None
        self._names += 1
        return Action(what=what, thread=thread, text=f"n{self._names}", value=random.random() < 0.5)

    def _exists(self, thread: str) -> bool:
        return self._known.turns.count(thread) > 0

    def _calm(self) -> list[str]:
        """Threads that have turns, all of which have ended."""
        turns = self._known.turns
        return [thread for thread in self.threads if turns.ended(thread, 1) and not turns.open(thread)]

    # --- what asks ----------------------------------------------------------------------------------------------

    def submit(self, name: str, thread: str, random: Random, kind: str | None = None) -> Action:
        """A message that nobody has sent yet."""
        action = self._message(name, thread, random, kind)
        self._known.ask(action)
        return action

    def _message(self, name: str, thread: str, random: Random, kind: str | None = None) -> Action:
        kind = kind or chosen(random, {kind: n for kind, n in KINDS.items() if (name, kind) != ("command", "answer")})
        self._names += 1
        content = f"{kind} {kind[0]}{self._names}.0" + "\x00\u2028\ud800" * (kind == "answer")
        self._renew(thread)
        key, when_busy = f"key-{self._names}", chosen(random, BUSY)
        return Action(what="submit", thread=thread, content=content, key=key, when_busy=when_busy)

    def _edit(self, name: str, thread: str, random: Random) -> Action | None:
        """A message takes the place of another one."""
        edited = self._of_turn("edit", thread, self._known.turns.ended(thread, 4), random)
        if edited is None:
            return None
        action = changed(self._message(name, thread, random), what="edit", turn=edited.turn)
        self._known.ask(action)
        return action

    def _again(self, name: str, random: Random) -> Action | None:
        """A message is sent again, often one whose answer was lost, with the same key."""
        lost, asked = (
            [*filter(_can_say(name), some)] for some in (self._known.newest_lost(), self._known.newest_asked)
        )
        some = lost if lost and random.random() < 0.7 else asked
        return changed(random.choice(some), what="again", when_busy="queue") if some else None

    def _conflict(self, random: Random) -> Action | None:
        """The same key with other words."""
        if not self._known.newest_told:
            return None
        one = random.choice(self._known.newest_told)
        return changed(one, what="conflict", content=f"brief x{one.key}", when_busy="queue")

    # --- what is about turns ------------------------------------------------------------------------------------

    def _of_turn(self, what: str, thread: str, turns: list[str], random: Random) -> Action | None:
        return Action(what=what, thread=thread, turn=random.choice(turns)) if turns else None

    def _interrupt(self, random: Random) -> Action | None:
        """Mostly a turn that does not end by itself; sometimes one that waits behind another."""
        turns = self._known.turns.open()
        if not turns:
            return None
        wanted = self._waiting() if random.random() < 0.2 else [*filter(self._is_endless, turns)]
        thread, turn = random.choice(wanted if wanted and random.random() < 0.8 else turns)
        return Action(what="interrupt", thread=thread, turn=turn)

    def _room(self, name: str, random: Random) -> Action | None:
        """The end of what a role answers, so that it can be asked something else."""
        own = [pair for pair in self._known.turns.open() if self._known.owners.get(pair, "").startswith(name)]
        if not own:
            return None
        thread, turn = random.choice(own)
        return Action(what="interrupt", thread=thread, turn=turn)

    def _is_endless(self, pair: Pair) -> bool:
        return str(self._known.contents.get(pair)).startswith(ENDLESS)

    def _waiting(self) -> list[Pair]:
        """Open turns behind an open one."""
        return [pair for thread in self.threads for pair in self._known.turns.open(thread)[1:]]

    def _approval(self, name: str, random: Random, *, asking: bool) -> Action | None:
        """One that is waited for; if there is none, somebody asks something that will need one."""
        waiting = self._known.approvals()
        if not waiting:
            return self.submit(name, random.choice(self.threads), random, kind="ask") if asking else None
        thread, turn, approval = random.choice(waiting)
        return Action(what="decide", thread=thread, turn=turn, text=approval)

    # --- whole threads ------------------------------------------------------------------------------------------

    def _fork(self, thread: str, random: Random) -> Action | None:
        """A copy of a thread; or one that was asked for before, by somebody who may have died over it."""
        asked = [fork for fork in self._forks[-5:] if fork.thread not in self._known.harmed]
        if asked and random.random() < 0.3:
            return random.choice(asked)
        action = self._of_turn("fork", thread, self._known.turns.ended(thread, 4), random)
        if action is None:
            return None
        self._names += 1
        action = changed(action, text=f"f{self._names}", turn=random.choice(("", action.turn)))
        self._forks.append(action)
        return action

    def unfinished(self, thread: str) -> set[str]:
        """Forks of a thread that nobody has seen whole: they may still be copied."""
        return {fork.text for fork in self._forks if fork.thread == thread} - self._forked

    def forked(self, fork: str) -> None:
        """People go on talking in a fork, in the place of the thread that they have talked in longest."""
        self._forked.add(fork)
        if fork not in (*self.threads, *self.left):
            self._leave(self.threads[0])
            self.threads[-1] = fork

    def _renew(self, thread: str) -> None:
        """A thread with enough turns gives its place to another one."""
        if self._known.turns.count(thread) >= TURNS_A_THREAD and thread in self.threads:
            self._leave(thread)

    def _leave(self, thread: str) -> None:
        """Another thread is begun in the place of this one, which comes last."""
        fresh = f"t{self._begun}" if self._begun % 3 else f"../t {self._begun}?"
        self._begun += 1
        self.threads.remove(thread)
        self.threads.append(fresh)
        if self._exists(thread):
            self.left.append(thread)


def _can_say(name: str) -> Callable[[Action], bool]:
    """What a role can ask: in the arguments of a command there is no zero."""
    return lambda action: name != "command" or "\x00" not in action.content


def changed(action: Action, **fields: str) -> Action:
    """An action like another one."""
    return msgspec.structs.replace(action, **fields)
