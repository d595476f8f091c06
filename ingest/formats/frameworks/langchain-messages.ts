/**
 * Messages of LangChain and of the states of LangGraph: `messages_to_dict` and `model_dump` of langchain_core/messages, the constructors of
 * `dumpd`, and the `toJSON` of LangChain.js.
 */
import { given, isRecord, type JsonObject } from '../../events/json.ts';
import { toLangchainMessage, unfold } from '../../traces/langchain-messages.ts';
import { type ChatMessage, fromMessage } from '../kit/chat-message.ts';
import { messageList } from '../kit/message-list.ts';
import { usageOf } from '../kit/usage.ts';

const KINDS = /^(?:human|ai|system|tool|function|(?:Human|AI|System|Tool|Function)Message)$/;

export const langchainMessages = messageList({
  name: 'langchain-messages',
  summary:
    'LangChain messages [{type: "human" | "ai" | "tool", content}], their constructors and {type, data}; states of LangGraph {messages}',
  isMessage(one) {
    const { kind, fields } = unfold(one);
    return kind !== null && KINDS.test(kind) && 'content' in fields && !('role' in fields || 'sessionId' in fields);
  },
  member: 'messages',
  read: (list) => list.map(listedOf),
});

function listedOf(native: JsonObject) {
  const { fields } = unfold(native);
  const metadata = isRecord(fields.response_metadata) ? fields.response_metadata : {};
  const { model_name: model, model: other, finish_reason, stop_reason } = metadata;
  const { id: _, ...message } = fromMessage(toLangchainMessage(native)) as JsonObject;
  const named = model ?? other;
  const usage = usageOf(fields.usage_metadata ?? metadata.token_usage ?? metadata.usage);
  return {
    message: {
      ...message,
      ...given('finish_reason', finish_reason ?? stop_reason),
      ...(fields.status === 'error' ? { is_error: true } : {}),
    } as ChatMessage,
    completed: { ...given('response_model', typeof named === 'string' ? named : undefined), ...given('usage', usage) },
  };
}
