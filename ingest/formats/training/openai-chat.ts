/** OpenAI chat: rows of fine-tuning JSONL and logs of completions, in both directions. A file may hold both. */
import { asText, isRecord } from '../../events/json.ts';
import { isSimulation } from '../benchmarks/tau2-bench.ts';
import { isLoggedCall } from '../frameworks/autogen-calls.ts';
import { CHAT_ROLES } from '../kit/chat-message.ts';
import type { RestoredEvent } from '../kit/format.ts';
import { format } from '../kit/reader.ts';
import { isSession } from '../sessions/cline.ts';
import { isTrajectory } from '../sessions/mini-swe-agent.ts';
import { convertChatRow, writeChatRow } from './chat-row.ts';
import { convertCompletionLog, LOG_RESTATES } from './completion-log.ts';
import { unloggedCalls, writeCompletionLog } from './completion-log-write.ts';
import { spendRow } from './litellm-rows.ts';
import { isSweRow } from './swe-rows.ts';

const NAME = 'openai-chat';

/** A log names its request, or has the messages of it beside an answer of the API. */
function isLog(record: Record<string, unknown>): boolean {
  const { request, response, messages } = spendRow(record)?.log ?? record;
  return response !== undefined && (request !== undefined || (Array.isArray(messages) && isAnswer(response)));
}

const isAnswer = (response: unknown): boolean =>
  isRecord(response) && (Array.isArray(response.choices) || (response.type === 'message' && 'content' in response));

/** Roles that mark a `conversations` list (ShareGPT's name for it) as messages of this format. */
const ANSWERED: ReadonlySet<string> = new Set(['assistant']);

/** Records of other formats that have `messages` with roles too. */
const OTHERS = [isLoggedCall, isSession, isTrajectory, isSimulation, isSweRow];

export const openaiChat = format({
  name: NAME,
  summary:
    'OpenAI chat rows {messages, tools?} and completion logs {request, response}, with token ids where vLLM gave them',
  recognises: (record) => {
    if (OTHERS.some((is) => is(record))) return false;
    const { request, messages, conversations } = spendRow(record)?.log ?? record;
    const [list, roles] =
      isLog(record) && isRecord(request)
        ? [request.messages, CHAT_ROLES]
        : messages === undefined
          ? [conversations, ANSWERED]
          : [messages, CHAT_ROLES];
    return (
      Array.isArray(list) &&
      list.some((one) => isRecord(one) && roles.has(asText(one.role)) && ('content' in one || 'tool_calls' in one))
    );
  },
  called: 'a chat row or a completion log',
  convert: (row, record) =>
    isLog(row.native) ? convertCompletionLog(NAME, row.native, record) : convertChatRow(NAME, row, record),
  restates: LOG_RESTATES,
  write: (episode) => (isChatRow(episode) ? [writeChatRow(episode)] : writeCompletionLog(episode)),
  unwritten: (episode) => (isChatRow(episode) ? 0 : unloggedCalls(episode)),
});

function isChatRow(episode: readonly RestoredEvent[]): boolean {
  const native = episode.find((event) => event.name === 'episode.started')?.data.native;
  return isRecord(native) && native.form === 'chat-row';
}
