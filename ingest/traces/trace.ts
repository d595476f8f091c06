/**
 * What tracing formats have in common: a trace is a tree of acts, each with a beginning and an end, and judgements on them later.
 * A format classifies each of its spans, runs or observations; `trace-tree.ts` finds who acted and which result answers which tool
 * call, `trace-drafts.ts` states it as events.
 */
import type { Content, EventData, Message } from '../events/events.ts';
import type { Native } from './otlp/span.ts';

export type Choice = EventData<'generation.completed'>['choices'][number];

/** Flag of an act, and of its episode, that was recorded twice with different content: one of the two is shown. */
export const CONFLICTING_SPAN = 'conflicting_span';

/** Flag of an act, and of its episode, of which a part is known to be missing. */
export const INCOMPLETE = 'incomplete';

export type Act = {
  /** The format whose words these are. */
  readonly format: string;
  readonly trace: string;
  readonly id: string;
  /** Null for a root. */
  readonly parent: string | null;
  readonly name: string;
  /** RFC 3339; null where unknown. */
  readonly start: string | null;
  readonly end: string | null;
  /** Native number of the act, where the format counts; decides between equal times. */
  readonly sequence?: string | number;
  /** The agent that the act itself names. */
  readonly agent?: string | null;
  /** What went wrong; undefined where nothing did. */
  readonly error?: unknown;
  readonly what: SpanKind;
  /** Its facts about its episode. */
  readonly about?: About;
  readonly flags?: readonly string[] | undefined;
  readonly unmapped?: Record<string, unknown> | undefined;
  /** The whole item, where the format can be written again. */
  readonly native?: Native;
  /** Native time of the last update, for formats that update. */
  readonly revision?: string;
};

export type SpanKind =
  | {
      readonly kind: 'generation';
      /** False where only an answer is known, such as of an update without its beginning. */
      readonly asked?: boolean;
      /** False where no answer is known. */
      readonly answered?: boolean;
      readonly model?: string | undefined;
      readonly params?: Record<string, unknown> | undefined;
      readonly input?: readonly Message[] | undefined;
      readonly tools?: unknown;
      readonly choices: readonly Choice[];
      readonly usage?: Record<string, unknown> | undefined;
      readonly responseId?: string | undefined;
      readonly responseModel?: string | undefined;
      readonly modelVersion?: string | undefined;
      readonly promptTokenIds?: readonly number[] | undefined;
      /** Where the format measures it; else the time from beginning to end. */
      readonly latencyMs?: number | undefined;
    }
  | {
      readonly kind: 'tool';
      readonly tool: string;
      /** Native id of the call that it answers; null where the format has none. */
      readonly callId: string | null;
      readonly type?: string | undefined;
      /** As written or as an object; undefined where unknown. */
      readonly asked?: unknown;
      readonly output?: unknown;
      readonly status?: 'ok' | 'error' | 'timeout' | 'denied' | 'cancelled';
    }
  | {
      readonly kind: 'agent';
      readonly instructions?: Content | undefined;
      readonly model?: string | undefined;
      readonly tools?: unknown;
      readonly description?: Record<string, unknown> | undefined;
    }
  | { readonly kind: 'handoff'; readonly from: string | null; readonly to: string }
  | { readonly kind: 'decision'; readonly decided: string; readonly decision: unknown }
  /** Something seen that no model wrote: retrieved documents, an event, a log. */
  | { readonly kind: 'observation'; readonly seen: string; readonly content?: unknown }
  /** A span around others, which repeats their content. */
  | { readonly kind: 'wrapper' }
  /** Facts about the episode alone. */
  | { readonly kind: 'episode' };

export type About = {
  readonly taskId?: string | undefined;
  readonly taskText?: string | undefined;
  readonly groundTruth?: unknown;
  readonly sessionId?: string | undefined;
  readonly groupId?: string | undefined;
  readonly attempt?: number | undefined;
  readonly tags?: Record<string, unknown> | undefined;
  readonly answer?: string | undefined;
  readonly outcome?: 'success' | 'failure' | 'error' | 'timeout' | 'aborted' | undefined;
  readonly stopReason?: string | undefined;
};

/** A judgement on a trace or an act, made after the fact. */
export type Judgement = {
  readonly format: string;
  /** Native id; without it the id of the judgement is derived from its content. */
  readonly id: string | null;
  readonly trace: string | null;
  readonly act: string | null;
  /** Id of a response, a session …: used where no trace is named. */
  readonly foreign?: string | null;
  readonly name: string;
  readonly value?: number | boolean | string | null;
  readonly label?: string | undefined;
  readonly explanation?: string | undefined;
  readonly by?: string | undefined;
  readonly annotator?: string | undefined;
  readonly time: string | null;
  readonly flags?: readonly string[];
  readonly unmapped?: Record<string, unknown> | undefined;
  readonly native?: Native;
  readonly revision?: string;
};
