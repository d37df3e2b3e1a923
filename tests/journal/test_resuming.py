"""How a loop goes on after a batch has settled hundreds of receipts."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from turnlog.journal.receipt import Receipt, settle
from turnlog.limits import RESUMED_AT_ONCE_MAX


def test_a_loop_is_never_held_up_by_a_batch() -> None:
    """P11: however many tasks one batch answers, the loop looks at what else is due after a bounded number of them."""
    waiting = 5 * RESUMED_AT_ONCE_MAX
    gone_on: list[int] = []

    async def wait(receipt: Receipt[int]) -> None:
        gone_on.append(await receipt)

    async def main() -> list[int]:
        receipts: list[Receipt[int]] = [Receipt() for _ in range(waiting)]
        tasks = [asyncio.create_task(wait(receipt)) for receipt in receipts]
        await asyncio.sleep(0)
        settle([(receipt, number, None) for number, receipt in enumerate(receipts)])
        seen = [len(gone_on)]
        while seen[-1] < waiting:
            await asyncio.sleep(0)
            seen.append(len(gone_on))
        await asyncio.gather(*tasks)
        return seen

    seen = asyncio.run(asyncio.wait_for(main(), 30))
    assert max(later - earlier for earlier, later in pairwise(seen)) <= RESUMED_AT_ONCE_MAX
    assert gone_on == list(range(waiting))
