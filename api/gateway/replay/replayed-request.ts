/** What a replay changes in a request, and by what requests are compared. Pure. */
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft, Event } from '../../../ingest/events/events.ts';
import { asText, hashId, isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { contextOf } from '../../../ingest/log/split.ts';
import { requestKey } from '../../../store/loop/play/source.ts';
import { draftsOf } from '../record.ts';
import type { CallContext, CompletionRequest } from '../request.ts';
import type { Kind } from '../upstream/kind.ts';
import { upstreamDrafts } from '../upstream/record.ts';

/** The data of generation.requested. */
export type RequestData = JsonObject & { readonly input?: readonly unknown[]; readonly tools?: unknown };

/** A call before it is answered. */
export type CallRequest = {
  readonly kind: Kind;
  readonly body: JsonObject;
  readonly context: CallContext;
  /** As a policy reads it; null where none can. */
  readonly read: CompletionRequest | null;
};

const AT = '1970-01-01T00:00:00.000Z';
const FRAME = { callId: 'call', episodeId: 'episode', requestedAt: AT, completedAt: AT, latencyMs: 0 };

/** How each recorder would write the request: that of policies, and that of model servers. What was redacted is redacted here too. */
export function requestsAs(
  { kind, body, context, read }: CallRequest,
  redact: (event: Event) => Event,
): readonly RequestData[] {
  const drafts = [
    ...(read === null ? [] : [draftsOf({ ...FRAME, context, request: read, seed: 0, outcome: { error: null } })]),
    upstreamDrafts({
      ...FRAME,
      kind,
      context,
      request: body,
      response: null,
      status: null,
      error: null,
      firstTokenMs: null,
      raw: null,
      upstream: NO_UPSTREAM,
      model: asText(body.model),
      flags: [],
    }),
  ];
  return drafts.flatMap((own) => {
    const requested = own.find(({ name }) => name === 'generation.requested') as Draft;
    const { event } = decodeDraft(requested);
    return event === undefined ? [] : [redact(event).data as RequestData];
  });
}

const NO_UPSTREAM = { name: 'none', prices: {}, tokenIds: null, logprobs: null, checkpoints: {} } as never;

/** What two equal requests have in common; of each of them. */
export const keysOf = (requests: readonly RequestData[], body: JsonObject): string[] => {
  const ids = Array.isArray(body.prompt) && body.prompt.every(Number.isSafeInteger) ? (body.prompt as number[]) : null;
  return requests.map(({ input, tools }) =>
    requestKey({ context: input ? contextOf('', input).hash : null, promptIds: ids, tools }),
  );
};

/** Where two requests differ first, in a few words; null where their messages are equal. */
export function differenceOf(recorded: readonly unknown[], now: readonly unknown[]): string | null {
  const at = Math.max(recorded.length, now.length);
  for (let i = 0; i < at; i++) {
    const [was, is] = [recorded[i], now[i]].map((message) => (message === undefined ? null : JSON.stringify(message)));
    if (was === is) continue;
    if (was === null) return `message ${i} was not there: ${shown(is!, 0)}`;
    if (is === null) return `message ${i} is missing: ${shown(was!, 0)}`;
    let same = 0;
    while (was![same] === is![same]) same++;
    return `message ${i} was ${shown(was!, same)} and is ${shown(is!, same)}`;
  }
  return null;
}

const SHOWN = 60;
/** A piece of a text around the place from which it differs. */
function shown(text: string, from: number): string {
  const start = Math.max(0, from - SHOWN / 3);
  const piece = text.slice(start, start + SHOWN);
  return `${start > 0 ? '…' : ''}${piece}${start + SHOWN < text.length ? '…' : ''}`;
}

/** Another seed for each sample, where the request names one: the team names the one of the source again, which would give its answer again. */
export const reseeded = (body: JsonObject, sample: number): JsonObject =>
  Number.isSafeInteger(body.seed)
    ? { ...body, seed: Number.parseInt(hashId('replay', body.seed, sample).slice(0, 8), 16) >>> 1 }
    : body;

const CONVERSATION = ['messages', 'input', 'prompt'] as const;

/** The request with an instruction at the end of its last message of the user, or as one more. */
export function instructed(body: JsonObject, text: string): JsonObject {
  const field = CONVERSATION.find((name) => body[name] !== undefined);
  if (field === undefined) return body;
  const value = body[field];
  if (typeof value === 'string') return { ...body, [field]: `${value}\n\n${text}` };
  if (!Array.isArray(value)) return body;
  const last = value.at(-1);
  if (isRecord(last) && last.role === 'user' && typeof last.content === 'string')
    return { ...body, [field]: [...value.slice(0, -1), { ...last, content: `${last.content}\n\n${text}` }] };
  return { ...body, [field]: [...value, { role: 'user', content: text }] };
}

const CLEANED = ['content', 'text', 'input', 'output', 'parts'];

/**
 * The request without a text, wherever a message holds it; a message with nothing else is left out. One word stands in other texts by chance:
 * where it is a message, only such are left out. `removed`: whether any held it.
 */
export function withoutText(body: JsonObject, text: string): { readonly body: JsonObject; readonly removed: boolean } {
  const sought = text.trim();
  let removed = false;
  if (sought === '') return { body, removed };
  const isAll = (value: unknown): boolean => {
    if (typeof value === 'string') return value.trim() === sought;
    if (Array.isArray(value)) return value.some(isAll);
    return isRecord(value) && Object.entries(value).some(([name, member]) => CLEANED.includes(name) && isAll(member));
  };
  const whole = !/\s/.test(sought) && CONVERSATION.some((name) => isAll(body[name]));
  const clean = (value: unknown): unknown => {
    if (typeof value === 'string') {
      if (whole ? value.trim() !== sought : !value.includes(sought)) return value;
      removed = true;
      return value.replaceAll(sought, '').trim();
    }
    if (Array.isArray(value))
      return value.flatMap((item) => {
        const now = clean(item);
        return now !== item && isEmpty(now) ? [] : [now];
      });
    if (!isRecord(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, CLEANED.includes(name) ? clean(member) : member]),
    );
  };
  const fields = Object.fromEntries(
    CONVERSATION.flatMap((name) => (body[name] === undefined ? [] : [[name, clean(body[name])] as const])),
  );
  return { body: removed ? { ...body, ...fields } : body, removed };
}

/** A message or a part whose text was all that it had. */
function isEmpty(value: unknown): boolean {
  if (!isRecord(value)) return value === '';
  const { content, text, tool_calls: calls } = value;
  if (Array.isArray(calls) && calls.length > 0) return false;
  return content === '' || text === '' || (Array.isArray(content) && content.length === 0);
}
