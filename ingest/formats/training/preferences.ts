/**
 * Rows of TRL (huggingface/trl, docs/source/dataset_formats.md) and of OpenAI's preference tuning: a prompt with one answer, an answer and a
 * verdict, or two answers of which one was preferred. A prompt that is left out is what both answers begin with.
 */
import { canonicalJson, given, isRecord, type JsonObject } from '../../events/json.ts';
import { type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { badConversation } from '../kit/conversation.ts';
import { conversationTrace } from '../kit/message-list.ts';
import { demand, format, isBoolean, isNumber, type Reader, unreadable } from '../kit/reader.ts';

const NAME = 'preferences';

const isSaid = (value: unknown): boolean =>
  typeof value === 'string' || (Array.isArray(value) && value.every((one) => isRecord(one) && 'role' in one));

export const preferences = format({
  name: NAME,
  summary:
    'Rows of TRL {prompt, completion, label?} and {prompt?, chosen, rejected}; OpenAI preference rows {input, preferred_output, non_preferred_output}',
  called: 'a row with answers',
  recognises: (row) =>
    (isSaid(row.chosen) && isSaid(row.rejected) && (row.prompt === undefined || isSaid(row.prompt))) ||
    (isSaid(row.prompt) && isSaid(row.completion)) ||
    (Array.isArray(row.preferred_output) && Array.isArray(row.non_preferred_output)),
  convert(row, record) {
    const names = ['chosen', 'completion', 'preferred_output'].filter((name) => row.has(name));
    const [better = 'completion'] = names;
    const worse = better === 'chosen' ? 'rejected' : better === 'completion' ? null : 'non_preferred_output';
    const input = row.object('input');
    const said = [better, ...(worse ? [worse] : [])].map((name) => messagesOf(row, name, 'assistant'));
    const asked = input
      ? messagesOf(input, 'messages', 'user')
      : row.has('prompt')
        ? messagesOf(row, 'prompt', 'user')
        : [];
    const shared = asked.length > 0 ? 0 : prefixOf(said);
    const prompt = [...asked, ...said[0]!.slice(0, shared)];
    const answers = said.map((list, i) => {
      const [answer, ...more] = list.slice(shared);
      const name = i === 0 ? better : worse!;
      if (answer?.role !== 'assistant' || more.length > 0)
        return unreadable(
          'bad_shape',
          row.path(name),
          'one answer of the assistant after the prompt',
          row.native[name],
        );
      return answer;
    });
    const isPair = answers.length === 2;
    const choices = answers.map((answer, index) => ({
      index,
      ...given('content', toMessage(answer).content),
      ...(isPair ? { chosen: index === 0 } : {}),
    }));
    const listed = [
      ...prompt.map((message) => ({ message })),
      { message: answers[0]!, completed: isPair ? { choices } : {} },
    ];
    const tools = input?.any('tools') ?? row.any('tools');
    const { trace, task, flags } = conversationTrace(NAME, record, listed, { field: better, tools });
    const { episodeId: episode_id } = trace;
    const call = `m${prompt.length}`;
    const step = (index: number) => ({ kind: 'step', id: `${call}/${index}`, episode_id }) as const;
    if (isPair) {
      const target = { kind: 'pair', id: `${call}/0`, other_id: `${call}/1`, episode_id } as const;
      trace.feedback(['preference'], { target, kind: 'preference', name: 'preference' });
      for (const [index, name] of ['score_chosen', 'score_rejected'].entries()) {
        const value = row.checked(name, isNumber, 'bad_number', 'a number or null');
        if (value !== undefined) trace.feedback([name], { target: step(index), kind: 'score', name: 'score', value });
      }
    } else {
      const value = row.checked('label', isBoolean, 'bad_type', 'true, false or null');
      if (value !== undefined) trace.feedback(['label'], { target: step(0), kind: 'label', name: 'label', value });
    }
    return trace.finish({ task, started: { flags, unmapped: row.rest() } }, row.problems);
  },
});

/** A text is a message of this role. */
function messagesOf(record: Reader, name: string, role: string): ChatMessage[] {
  const said = record.any(name);
  if (typeof said === 'string') return [{ role, content: said }];
  demand(badConversation(record.native[name], record.path(name)));
  return said as ChatMessage[];
}

/** How many messages both begin with; at least one answer is left of each. */
function prefixOf([one = [], other]: readonly (readonly ChatMessage[])[]): number {
  if (!other) return 0;
  const at = one.findIndex(
    (message, i) => other[i] === undefined || canonicalJson(message) !== canonicalJson(other[i] as JsonObject),
  );
  return at < 0 ? Math.max(0, Math.min(one.length, other.length) - 1) : at;
}
