/**
 * A replay: an episode is played again from its record up to a place, and goes on from there. What may be asked of it, and how the calls of an
 * attempt are distinguished: those that the record answers, the one at the place, those after it, and those that were never recorded. Pure.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import { FaultSpec } from './faults.ts';

const Answer = Type.Union(
  [
    Type.String(),
    Type.Object(
      {
        content: Type.Optional(Type.Union([Type.String(), Type.Null()])),
        tool_calls: Type.Optional(
          Type.Array(
            Type.Object(
              { function: Type.Object({ name: Type.String({ minLength: 1 }), arguments: Type.String() }) },
              { additionalProperties: true },
            ),
          ),
        ),
      },
      { additionalProperties: false },
    ),
    Type.Object({ step_id: Type.String({ minLength: 1 }) }, { additionalProperties: false }),
  ],
  {
    description:
      'text; or content and tool_calls as in the chat interface; or the step_id of a candidate of the source',
  },
);
export type ReplayAnswer = Static<typeof Answer>;

/** What anybody may ask for. */
export const ReplayRequest = Type.Object(
  {
    episode_id: Type.Optional(Type.String({ minLength: 1, description: 'the episode to go back to' })),
    from: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'call or step from which it goes on; `each`: every call, one after another; `end`: nothing goes on',
      }),
    ),
    where: Type.Optional(
      Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), Type.Unknown())], {
        description:
          'filter over steps instead: each step that fits is a place, such as "tags.rollout = first and role = verifier"',
      }),
    ),
    answer: Type.Optional(Answer),
    answers: Type.Optional(
      Type.Record(Type.String(), Answer, { description: 'agent to the answer of its next call, from the place on' }),
    ),
    fault: Type.Optional(FaultSpec),
    skip: Type.Optional(
      Type.Boolean({
        description: 'true: the step is answered from the record, and left out of every prompt after it',
      }),
    ),
    kind: Type.Optional(
      Type.Enum(['correct', 'edit', 'repair'], {
        description:
          'what an answer is for: correct (default), edit (tests a hypothesis), repair (of the agents in answers)',
      }),
    ),
    hypothesis: Type.Optional(Type.String({ minLength: 1, description: 'what an edit is to test' })),
  },
  { additionalProperties: false, description: 'an episode is played again up to a place, and goes on from there' },
);
export type ReplayRequest = Static<typeof ReplayRequest>;

/** @throws TroupeError `usage` where the fields do not fit together */
export function checkReplay(asked: ReplayRequest): void {
  const refused = (message: string) => new TroupeError('usage', message, { field: 'replay' });
  const { episode_id, from, where, answer, answers, fault, skip, kind, hypothesis } = asked;
  if (episode_id === undefined && where === undefined)
    throw refused('A replay should name an episode_id, or a filter over steps in where.');
  if (where !== undefined && from !== undefined && from !== 'end')
    throw refused(
      'A replay with a filter in where goes on from each step that fits, so from should be left out, or end.',
    );
  if (where === undefined && from === undefined)
    throw refused('A replay should name the call or step in from, or each, or end.');
  const answered = answer !== undefined || answers !== undefined;
  if ([answered, fault !== undefined, skip === true].filter(Boolean).length > 1)
    throw refused('A replay should have one of answer (or answers), fault and skip.');
  if (from === 'end' && (answered || fault !== undefined || skip === true))
    throw refused('At the end of an episode there is no step to change: leave out answer, fault and skip.');
  if ((kind !== undefined || hypothesis !== undefined) && !answered)
    throw refused('kind and hypothesis say what an answer is for, and this replay has none.');
  if (hypothesis !== undefined && kind !== 'edit') throw refused('A hypothesis is tested by an answer of kind edit.');
}

/** One place of a rollout that replays: its attempts are a group. */
export const PlaceSpec = Type.Object({
  /** Of the source. */
  episode_id: Type.String(),
  /** Null: the end of the source. */
  call_id: Type.Union([Type.String(), Type.Null()]),
  step_id: Type.Union([Type.String(), Type.Null()]),
  agent: Type.Union([Type.String(), Type.Null()]),
  /** Index among the tasks of the rollout. */
  task: Type.Integer({ minimum: 0 }),
  /** What the team was given when it played the source; missing where that is not known. */
  seed: Type.Optional(Type.Integer({ minimum: 0 })),
  params: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]))),
  /** By agent: what its next call is answered with, from the place on. */
  answers: Type.Optional(Type.Record(Type.String(), Answer)),
});
/** The name of no agent. */
export const NO_AGENT = '';
export type ReplayPlace = Static<typeof PlaceSpec>;

/** What happens at the place; null where another sample is drawn there and nothing else. */
export function interventionOf(
  { fault, skip, kind = 'correct', hypothesis }: ReplayRequest,
  { step_id, agent, answers }: Pick<ReplayPlace, 'step_id' | 'agent' | 'answers'>,
): Readonly<Record<string, unknown>> | null {
  const at = { step_id, ...(agent === null ? {} : { agent }) };
  if (fault !== undefined) return { kind: 'perturb', fault, ...at };
  if (skip === true) return { kind: 'skip', ...at };
  if (answers === undefined) return null;
  return {
    kind,
    ...at,
    // The answer stands in the place of a sample: it cannot be carried out in part.
    fulfilled: true,
    ...(hypothesis === undefined ? {} : { hypothesis }),
    ...(kind === 'repair' ? { repaired: Object.keys(answers).sort() } : {}),
  };
}

/** A call of the source, as far as it decides which call of a replay it answers. */
export type SourceCall = {
  readonly call_id: string;
  /** The episode in which it was sampled: the source, or what the source replays itself. */
  readonly origin: string;
  readonly agent: string | null;
  /** Equal for equal requests. */
  readonly request: string;
  /** In seconds. A call that was asked for before another was answered ran beside it. */
  readonly requested: number;
  readonly completed: number;
  /** The step it went on with. */
  readonly step_id: string;
};

/** A call of an attempt; `requests`: how each recorder would have written its request. */
type PlayedCall = { readonly agent: string | null; readonly requests: readonly string[] };

type ReplayedTurn =
  /** The record answers it. */
  | { readonly is: 'recorded'; readonly call: SourceCall }
  /** The one at the place. `parent`: the step before it, null for the first one. */
  | { readonly is: 'place'; readonly call: SourceCall; readonly parent: string | null }
  /** After the place, or beside it. */
  | { readonly is: 'after' }
  /** Not what was recorded: `why` is a sentence, `call` the one that was expected, null where none was. */
  | { readonly is: 'other'; readonly why: string; readonly call: SourceCall | null };

export type Walk = {
  readonly next: (call: PlayedCall) => ReplayedTurn;
  /** The same for calls that are known to be answered, as after a restart. */
  readonly answered: (callId: string) => void;
};

/**
 * Walks along the calls of a source, in the order in which they were requested, up to one of them (null: to the end). Calls that were one after
 * another in the source have to be so again; those that ran beside each other may come in any order.
 */
export function walkAlong(calls: readonly SourceCall[], placeId: string | null): Walk {
  const at = placeId === null ? calls.length : calls.findIndex(({ call_id }) => call_id === placeId);
  const [before, place, later] = [calls.slice(0, at), calls[at] ?? null, calls.slice(at + 1)];
  const done = new Set<SourceCall>();
  /** Whether all that was answered before this call was asked for is answered now. */
  const isDue = (call: SourceCall): boolean =>
    calls
      .slice(0, Math.min(calls.indexOf(call), at + 1))
      .every((one) => done.has(one) || one.completed > call.requested);
  const isLike = ({ agent, requests }: PlayedCall, call: SourceCall): boolean =>
    call.agent === agent && requests.includes(call.request);
  const take = (played: PlayedCall, among: readonly SourceCall[]): SourceCall | null => {
    const found = among.find((call) => !done.has(call) && isLike(played, call) && isDue(call)) ?? null;
    if (found !== null) done.add(found);
    return found;
  };
  return {
    answered: (callId) => {
      const call = calls.find(({ call_id }) => call_id === callId);
      if (call) done.add(call);
    },
    next: (played) => {
      const recorded = take(played, before);
      if (recorded !== null) return { is: 'recorded', call: recorded };
      if (place !== null) {
        if (done.has(place)) return { is: 'after' };
        if (take(played, [place]) !== null) return { is: 'place', call: place, parent: before.at(-1)?.step_id ?? null };
        if (take(played, later) !== null) return { is: 'after' };
      }
      const open = before.filter((call) => !done.has(call));
      const expected = [...open, ...(place ? [place] : [])].find(({ agent }) => agent === played.agent) ?? null;
      return { is: 'other', why: whyOther(played, { open, place, expected, all: calls, isLike }), call: expected };
    },
  };
}

function whyOther(
  played: PlayedCall,
  {
    open,
    place,
    expected,
    all,
    isLike,
  }: {
    readonly open: readonly SourceCall[];
    readonly place: SourceCall | null;
    readonly expected: SourceCall | null;
    readonly all: readonly SourceCall[];
    readonly isLike: (played: PlayedCall, call: SourceCall) => boolean;
  },
): string {
  const who = played.agent === null ? 'A call without an agent' : `A call of ${played.agent}`;
  const waiting = [...open, ...(place ? [place] : [])];
  const early = waiting.find((call) => isLike(played, call));
  if (early) return `${who} came before call ${waiting[0]!.call_id}, after which it was recorded.`;
  const others = waiting.find(({ request }) => played.requests.includes(request));
  if (others) return `${who} has the request of call ${others.call_id}, which is one of ${others.agent ?? 'no agent'}.`;
  if (waiting.length === 0) return `${who} came after the last call that was recorded.`;
  if (expected) return `${who} has another request than call ${expected.call_id}.`;
  return all.some(({ agent }) => agent === played.agent)
    ? `${who} came, and all its calls before the place were answered; call ${waiting[0]!.call_id} is next.`
    : `${who} came, and no call of that agent was recorded; call ${waiting[0]!.call_id} is next.`;
}
