"""The webhooks of interpreters, with the answers in the record of the review that is replayed."""

from fleethook.engines.interpret.chain import IgnoredError
from fleethook.engines.interpret.hooks.hook_configuration import Hook
from fleethook.engines.interpret.hooks.webhook_layer import WebhookLayer
from fleethook.interpret.question import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.json import as_object
from fleethook.recordings.replay.recorded_calls import UNRECORDED, CallName, find_current, read_answer


class RecordedHookLayer(WebhookLayer):
    """Finds the webhooks of interpreters as a server does, and answers as they did."""

    async def _ask(self, hook: Hook, question: Question) -> Answer:
        configuration, _, name = hook.uid.partition("/")
        calls, key = find_current(), f"{question.operation.value}/{hook.uid}"
        call = calls.take("webhook", name, key, cluster="", configuration=configuration)
        if call is None:
            raise InterpretError(UNRECORDED, code=500)
        if call.error:
            failure = call.failure or {}
            if failure.get("ignored") is True:
                raise IgnoredError(call.error)
            code = failure.get("code")
            raise InterpretError(call.error, code=code if isinstance(code, int) else 500)
        try:
            return Answer(**as_object(read_answer(call)))
        except (TypeError, ValueError) as error:
            calls.note_missing(CallName("webhook", configuration, name), f"its recorded answer cannot be read: {error}")
            raise InterpretError(UNRECORDED, code=500) from error
