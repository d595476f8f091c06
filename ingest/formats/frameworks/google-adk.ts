/**
 * Sessions of Google's Agent Development Kit (google/adk/sessions/session.py), as `adk run --save_session`, its server and `model_dump` give
 * them: events with an author and contents of the Gemini API. Members of both spellings are read.
 */
import { asText, canonicalJson, given, isRecord, type JsonObject } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, fromMessage } from '../kit/chat-message.ts';
import { conversationTrace, type ListedMessage } from '../kit/message-list.ts';
import { format } from '../kit/reader.ts';
import { timeOfSeconds } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { callParts, callsIn, responsesIn, wordsOf } from '../sessions/gemini-records.ts';

const NAME = 'google-adk';

/** The same members in camel case, without those that are null. */
const camel = (record: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(record).flatMap(([name, value]) =>
      value === null ? [] : [[name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]],
    ),
  );

const isEvent = (one: unknown): one is JsonObject =>
  isRecord(one) && isIdentifier(one.author) && ('invocation_id' in one || 'invocationId' in one);

export const googleAdk = format({
  name: NAME,
  summary: 'Google ADK sessions {id, app_name | appName, events: [{author, content: {role, parts}}]}',
  called: 'a session object',
  recognises: ({ events, id }) => isIdentifier(id) && Array.isArray(events) && events.some(isEvent),
  convert(session, record) {
    const events = session.each('events', 'a list of events', 'an event with an author', (event) =>
      camel({ ...event.native, author: event.id('author', 'who wrote the event') }),
    );
    const seqs: number[] = [];
    const listed: ListedMessage[] = [];
    for (const event of events) {
      seqs.push(listed.length);
      listed.push(...listedOf(event));
    }
    const ids = session.these('id', 'app_name', 'appName', 'user_id', 'userId');
    const authors = new Set(events.flatMap(({ author, content }) => (isAnswer(author, content) ? [author] : [])));
    // ADK tells each agent in words of its own what the others said: only a lone agent was shown the events as they are.
    const { trace, task, flags } = conversationTrace(NAME, record, listed, {
      field: 'events',
      run: canonicalJson(ids),
      shown: authors.size < 2,
    });
    for (const author of authors) trace.member(author as string);
    for (const [i, { author, actions, errorCode: code, errorMessage: message }] of events.entries()) {
      const to = isRecord(actions) ? camel(actions).transferToAgent : undefined;
      if (isIdentifier(to)) trace.handoff(seqs[i]!, author as string, trace.member(to), 'handoff');
      if (code !== undefined) trace.observed(seqs[i]!, 'error', { content: { code, message } });
    }
    const last = events.at(-1);
    return trace.finish(
      {
        task,
        started: {
          native: { format: NAME, ids },
          flags,
          unmapped: session.filledRest(),
        },
        startedAt: timeOfSeconds(events[0]?.timestamp),
        finished: { outcome: last?.errorCode === undefined ? 'unknown' : 'error' },
        finishedAt: timeOfSeconds(last?.timestamp),
      },
      session.problems,
    );
  },
});

const isAnswer = (author: unknown, content: unknown): boolean =>
  author !== 'user' && isRecord(content) && content.role !== 'user' && Array.isArray(content.parts);

function listedOf({
  author,
  content,
  timestamp,
  usageMetadata,
  modelVersion,
  finishReason,
}: JsonObject): ListedMessage[] {
  if (!isRecord(content) || !Array.isArray(content.parts)) return [];
  const parts = content.parts.map((part) => (isRecord(part) ? camel(part) : part));
  const at = timeOfSeconds(timestamp);
  const results = responsesIn(parts).map(({ id, name, response }): ListedMessage => {
    const { error } = isRecord(response) ? response : {};
    const message = {
      role: 'tool',
      tool_call_id: id ?? `/${asText(name)}/0`,
      content: writtenArguments(response ?? null),
    };
    return { at, message: { ...message, ...(error ? { is_error: true } : {}) } };
  });
  const words = wordsOf(parts);
  const reason = typeof finishReason === 'string' ? finishReason.toLowerCase() : undefined;
  if (!isAnswer(author, content))
    return [
      ...results,
      ...(words.length > 0 ? [{ at, message: fromMessage({ role: 'user', content: words }) as ChatMessage }] : []),
    ];
  const message = { role: 'assistant', name: author, content: [...words, ...callParts(callsIn(parts))] };
  return [
    {
      at,
      message: { ...fromMessage(message), ...given('finish_reason', reason) } as JsonObject as ChatMessage,
      completed: {
        ...(typeof modelVersion === 'string' ? { response_model: modelVersion } : {}),
        ...given('usage', usageOf(usageMetadata)),
      },
    },
  ];
}
