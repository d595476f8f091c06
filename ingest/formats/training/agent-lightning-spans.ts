/** Spans of Agent Lightning v0.3: flattened conversations as Traceloop writes them, with token ids; rewards are annotations. */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { genaiSpanKind } from '../../traces/otel-genai-spans.ts';
import type { Attributes, OtlpSpan } from '../../traces/otlp/span.ts';
import type { Act, Judgement, SpanKind } from '../../traces/trace.ts';
import { flatGeneration } from '../../traces/traceloop-spans.ts';
import { timeOfSeconds, utcOf } from '../kit/run.ts';
import { flattened, idAt, jsonIn, leftover } from '../kit/span-attributes.ts';
import { isTokenIds, logprobsIn } from './agent-lightning-calls.ts';

const FLAT = /^gen_ai\.(?:prompt|completion)\.\d+\./;
const REWARDS = 'agentlightning.reward';

const timeOf = (value: unknown): string | null => timeOfSeconds(value) ?? utcOf(value);

export function lightningSpanAct(format: string, span: JsonObject, trace: string): Act {
  const attributes = span.attributes as Attributes;
  const name = typeof span.name === 'string' ? span.name : '';
  const status = isRecord(span.status) ? span.status : {};
  const { what, mismatch } = spanKindOf(attributes, name);
  const isGeneration = what.kind === 'generation';
  return {
    format,
    trace,
    id: span.span_id as string,
    parent: isIdentifier(span.parent_id) ? span.parent_id : null,
    name,
    start: timeOf(span.start_time),
    end: timeOf(span.end_time),
    ...(typeof span.sequence_id === 'number' ? { sequence: span.sequence_id } : {}),
    what,
    agent: idAt(attributes, 'gen_ai.agent.name', 'agent.name') ?? null,
    ...(status.status_code === 'ERROR' ? { error: status.description ?? '' } : {}),
    ...(mismatch ? { flags: ['logprobs_mismatch'] } : {}),
    unmapped: without({
      ...without(
        span,
        'rollout_id',
        'attempt_id',
        'span_id',
        'parent_id',
        'name',
        'start_time',
        'end_time',
        'attributes',
      ),
      attributes: leftover(
        attributes,
        (key) => key.startsWith(`${REWARDS}.`) || (isGeneration && (FLAT.test(key) || TOKENS.has(key))),
      ),
    }),
  };
}

const TOKENS = new Set([
  'prompt_token_ids',
  'response_token_ids',
  'gen_ai.request.model',
  'gen_ai.response.id',
  'gen_ai.response.model',
]);

function spanKindOf(attributes: Attributes, name: string): { readonly what: SpanKind; readonly mismatch: boolean } {
  const known = genaiSpanKind({ attributes, name } as OtlpSpan);
  const isModelOrTool =
    known.kind === 'generation' ||
    Object.keys(attributes).some((key) => FLAT.test(key)) ||
    isTokenIds(attributes.response_token_ids);
  if (!isModelOrTool) return { what: known, mismatch: false };
  const what = flatGeneration(attributes);
  if (what.kind !== 'generation') return { what, mismatch: false };
  const tokens = attributes.response_token_ids;
  const logprobs = logprobsIn({ content: jsonIn(attributes['logprobs.content']) });
  const fits = isTokenIds(tokens) && logprobs?.length === tokens.length;
  const [first, ...others] = what.choices;
  return {
    what: {
      ...what,
      ...given('promptTokenIds', isTokenIds(attributes.prompt_token_ids) ? attributes.prompt_token_ids : undefined),
      choices: [
        {
          ...(first ?? { index: 0 }),
          ...(isTokenIds(tokens) ? { token_ids: tokens } : {}),
          ...(fits ? { logprobs } : {}),
        },
        ...others,
      ],
    },
    mismatch: logprobs !== undefined && !fits,
  };
}

/** The rewards of a span; the primary one is the reward of the attempt. */
export function annotationsOf(format: string, span: JsonObject, trace: string): Judgement[] {
  return flattened(span.attributes as Attributes, REWARDS).map((entry, i) => {
    const name = isIdentifier(entry.name) ? entry.name : 'reward';
    return {
      format,
      id: `${asText(span.span_id)}/${i}`,
      trace,
      act: null,
      name: name === 'primary' ? 'reward' : name,
      ...(typeof entry.value === 'number' ? { value: entry.value } : { value: null, flags: ['no_value'] }),
      time: timeOf(span.end_time),
      unmapped: { span_id: span.span_id, name: entry.name ?? null },
    };
  });
}
