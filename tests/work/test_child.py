"""The parent's side of a process that answers questions."""

import threading

from fleethook.engines.crds.controller.verifier_process import ChildProcess

from tests.waiting import NET, wait_for


def test_a_process_can_be_stopped_while_a_thread_waits_for_its_answer() -> None:
    child, answers = ChildProcess("tests.work.mute"), list[bytes | None]()
    asking = threading.Thread(target=lambda: answers.append(child.ask(b"?")), daemon=True)
    asking.start()
    wait_for(lambda: child._running is not None)
    stopping = threading.Thread(target=child.stop, daemon=True)
    stopping.start()
    for thread in (stopping, asking):
        thread.join(NET)
    assert answers == [None]
