/**
 * The events of one run, in the order in which they are stated. The trace knows the episode, names calls and messages by their number,
 * pairs tools with their results, and defines the agents that nothing else is known of.
 */
import type { Content, Draft, EventData, EventName } from '../../events/events.ts';
import { hashId } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import type { ChatMessage } from './chat-message.ts';
import { type ConversationOptions, conversationDrafts, toolLedger } from './conversation.ts';
import type { Conversion, NativeRecord, NativeRefusal } from './format.ts';
import { type Emitter, emitterFor, type Optionals, rawRecord, recordId, revisedEmitter } from './native.ts';
import { lastResultDrafts, type RolloutCall, rolloutCallDrafts } from './rollout-calls.ts';
import { NO_TOKEN_IDS, patchDraft } from './run.ts';

/** Data of an event of this episode. */
export type InEpisode<N extends EventName> = Omit<Optionals<EventData<N>>, 'episode_id'>;
type Place = readonly (string | number)[];

export type Run = {
  /** The original, where that is more or less than the record. */
  readonly canonical?: string;
  readonly task: Optionals<EventData<'task.defined'>> | null;
  readonly team?: Optionals<EventData<'team.defined'>> | null;
  readonly started?: InEpisode<'episode.started'>;
  readonly startedAt?: string | null;
  /** Whether a part of the run is missing. What was refused is. */
  readonly incomplete?: boolean;
  /** Flags of the episode beside `no_token_ids` and `incomplete`. */
  readonly flags?: readonly string[];
  /** Names, or what else is known of each. */
  readonly agents?: Iterable<string | InEpisode<'agent.defined'>>;
  /** Null where the record has no end; without it the outcome is unknown. */
  readonly finished?: InEpisode<'episode.finished'> | null;
  readonly finishedAt?: string | null;
};

export class Trace {
  readonly episodeId: string;
  readonly events: Draft[] = [];
  readonly ledger: ReturnType<typeof toolLedger>;
  readonly #emit: Emitter;
  readonly #format: string;
  readonly #record: NativeRecord;
  readonly #agents = new Set<string>();
  readonly #stated = new Set<string>();
  readonly #bodies: string[] = [];

  constructor(
    emit: Emitter,
    format: string,
    record: NativeRecord,
    episodeId = recordId(format, record),
    ledger = toolLedger(),
  ) {
    this.ledger = ledger;
    this.#emit = emit;
    this.#format = format;
    this.#record = record;
    this.episodeId = episodeId;
  }

  /** The run of a record that says nothing else when it is read again. */
  static of(format: string, record: NativeRecord, episodeId?: string): Trace {
    return new Trace(emitterFor(format), format, record, episodeId);
  }

  /** A run that may be read again when it has grown or changed; see {@link revisedEmitter}. */
  static revised(format: string, record: NativeRecord, episodeId?: string, ledger?: Trace['ledger']): Trace {
    return new Trace(revisedEmitter(format), format, record, episodeId, ledger);
  }

  /** An event of the episode; `place` is what no other event of its name has in it. */
  add<N extends EventName>(name: N, place: Place, data: InEpisode<N>, time: string | null = null): void {
    const whole = { episode_id: this.episodeId, ...data } as unknown as Optionals<EventData<N>>;
    this.events.push(this.#emit.event(name, [this.episodeId, ...place], whole, time));
  }

  /** An agent did something: it is a member of the team. */
  member(agent: string): string {
    this.#agents.add(agent);
    return agent;
  }

  /** An answer of which it is unknown what the model was shown. `more` may name the call, a turn, what has no place. */
  answer(seq: number, agent: string, content: Content, more: Partial<InEpisode<'generation.completed'>> = {}): void {
    const data = { seq, call_id: `m${seq}`, agent_id: this.member(agent), choices: [{ index: 0, content }], ...more };
    this.add('generation.completed', [seq], data as InEpisode<'generation.completed'>);
  }

  /** A model call, its answer, and the tool calls in it, which have native ids. */
  exchange(
    call: Pick<InEpisode<'generation.completed'>, 'call_id' | 'agent_id' | 'seq' | 'turn'>,
    { askedAt = null, ...asked }: Partial<InEpisode<'generation.requested'>> & { readonly askedAt?: string | null },
    { at = null, ...answer }: Partial<InEpisode<'generation.completed'>> & { readonly at?: string | null },
    calls: readonly (Partial<InEpisode<'tool.called'>> & { readonly id: string; readonly at?: string | null })[] = [],
  ): void {
    const place = [call.call_id];
    this.add('generation.requested', place, { ...call, ...asked }, askedAt);
    this.add('generation.completed', place, { ...call, ...answer } as InEpisode<'generation.completed'>, at);
    for (const [index, { id, at: calledAt = at, ...tool }] of calls.entries()) {
      const known = { ...call, tool_call_id: this.ledger.call(id), index, native: { tool_call_id: id }, ...tool };
      this.add('tool.called', [...place, index], known as InEpisode<'tool.called'>, calledAt);
    }
  }

  /** A message of somebody who is no member. */
  message(seq: number, from: string, content: Content, more: Partial<InEpisode<'message.sent'>> = {}): void {
    this.add('message.sent', [seq], { seq, message_id: `m${seq}`, from, content, ...more });
  }

  /** A tool call by its native id, which may repeat in an episode; a result finds it by the ledger. */
  tool(
    seq: number,
    index: number,
    nativeId: string,
    data: Omit<InEpisode<'tool.called'>, 'tool_call_id'>,
    time: string | null = null,
  ): void {
    const native = { tool_call_id: nativeId };
    const whole = { seq, tool_call_id: this.ledger.call(nativeId), index, native, ...data };
    this.add('tool.called', [seq, index], whole as InEpisode<'tool.called'>, time);
  }

  /** The result of the latest open tool call of a native id. */
  result(
    seq: number,
    nativeId: string,
    data: Omit<InEpisode<'tool.returned'>, 'tool_call_id'>,
    time: string | null = null,
  ): void {
    const native = { tool_call_id: nativeId };
    const whole = { seq, tool_call_id: this.ledger.result(nativeId), native, ...data };
    this.add('tool.returned', [seq], whole as InEpisode<'tool.returned'>, time);
  }

  /** A member hands over to another. */
  handoff(
    seq: number,
    from: string,
    to: string,
    kind: EventData<'control.transferred'>['kind'],
    more: Partial<InEpisode<'control.transferred'>> = {},
  ): void {
    this.add('control.transferred', [seq], { seq, from_agent: from, to_agent: to, kind, ...more });
  }

  /** What the environment showed. */
  observed(seq: number, kind: string, more: Partial<InEpisode<'environment.observed'>>): void {
    this.add('environment.observed', [seq], { seq, kind, ...more });
  }

  decided(seq: number, kind: string, decision: unknown, more: Partial<InEpisode<'decision.made'>> = {}): void {
    this.add('decision.made', [seq], { seq, kind, decision, ...more });
  }

  /** The patch that the run came to, if there is one. */
  patch(patch: string | undefined): void {
    if (patch === undefined) return;
    this.#bodies.push(patch);
    this.events.push(patchDraft(this.#emit, this.episodeId, patch));
  }

  /** Feedback on the episode, unless it names another target. `place` names it among the feedback of the episode. */
  feedback(
    place: Place,
    data: Omit<Optionals<EventData<'feedback.recorded'>>, 'feedback_id' | 'target'> &
      Partial<Pick<EventData<'feedback.recorded'>, 'target'>>,
    eventPlace: Place = place,
  ): void {
    const { episodeId } = this;
    const feedback = {
      feedback_id: hashId(this.#format, episodeId, ...place),
      target: { kind: 'episode' as const, id: episodeId, episode_id: episodeId },
      ...data,
    };
    this.events.push(
      this.#emit.event('feedback.recorded', [episodeId, ...eventPlace], feedback as EventData<'feedback.recorded'>),
    );
  }

  /** A reward or a score of the environment for a member, or without one for the episode. */
  judged(
    kind: 'reward' | 'score',
    name: string,
    value: number | boolean,
    agent?: string,
    unmapped?: Record<string, unknown>,
  ): void {
    const own =
      agent === undefined ? { kind: 'episode' as const, id: this.episodeId } : { kind: 'agent' as const, id: agent };
    const target = { ...own, episode_id: this.episodeId };
    this.feedback([kind, name, own.kind, own.id], { target, kind, name, value, by: 'env', unmapped });
  }

  /** A model call of a rollout; facts that several branches state equally are stated once. */
  rollout(call: Omit<RolloutCall, 'episodeId'>): void {
    this.#once(rolloutCallDrafts(this.#emit, { ...call, episodeId: this.episodeId }));
  }

  /** Results of tools that no later call was shown: those at the end of a whole conversation. */
  lastResults(
    call: Pick<RolloutCall, 'callId' | 'agentId' | 'turn'>,
    messages: Parameters<typeof lastResultDrafts>[2],
  ): void {
    this.#once(lastResultDrafts(this.#emit, { ...call, episodeId: this.episodeId }, messages));
  }

  #once(drafts: readonly Draft[]): void {
    for (const draft of drafts) {
      const fact = `${draft.name} ${draft.id}`;
      if (!this.#stated.has(fact)) this.events.push(draft);
      this.#stated.add(fact);
    }
  }

  /** `no_token_ids`, unless an answer came with those that were sampled. */
  #tokenFlags(): string[] {
    const known = this.events.some(
      (draft) => draft.name === 'generation.completed' && draft.data.choices.some(({ token_ids: ids }) => ids),
    );
    return known ? [] : [NO_TOKEN_IDS];
  }

  /** A conversation with one agent that passed `badConversation`. */
  conversation(messages: readonly ChatMessage[], options: Omit<ConversationOptions, 'episodeId'>): void {
    const { episodeId, ledger } = this;
    pushAll(this.events, conversationDrafts(this.#emit, messages, { episodeId, ledger, ...options }));
  }

  /** A part of a run that begins and ends elsewhere. */
  part(): Draft[] {
    return [rawRecord(this.#emit, this.episodeId, this.#record.canonical).draft, ...this.events];
  }

  /** The whole run. Members that `agents` does not describe are defined by their name; flags in `started` stand in place of all others. */
  finish(run: Run, refusals: readonly NativeRefusal[] = []): Conversion {
    const {
      task,
      team,
      started,
      startedAt,
      finished = { outcome: 'unknown' },
      finishedAt,
      incomplete,
      flags = [],
    } = run;
    const { episodeId, events } = this;
    const { canonical } = this.#record;
    const emit = this.#emit;
    const raw = rawRecord(emit, episodeId, run.canonical ?? canonical);
    const described = [...(run.agents ?? [])].map((one) => (typeof one === 'string' ? { agent_id: one } : one));
    const known = new Set(described.map(({ agent_id }) => agent_id));
    const members = [...described, ...[...this.#agents].flatMap((id) => (known.has(id) ? [] : [{ agent_id: id }]))];
    const about = { task_id: task?.task_id, team_id: team?.team_id, native: { format: this.#format } };
    const isPart = incomplete === true || refusals.length > 0;
    const start = {
      ...{ episode_id: episodeId, ...about, raw: { artifact_id: raw.artifactId } },
      flags: [...this.#tokenFlags(), ...(isPart ? ['incomplete'] : []), ...flags],
    };
    const end = finished && { episode_id: episodeId, ...finished };
    const drafts = [
      ...(task ? [emit.state('task.defined', task)] : []),
      ...(team ? [emit.state('team.defined', team)] : []),
      raw.draft,
      emit.event('episode.started', [episodeId], { ...start, ...started }, startedAt ?? null),
      ...members.map((member) => {
        const whole = { episode_id: episodeId, name: member.agent_id, ...member };
        return emit.event('agent.defined', [episodeId, member.agent_id], whole);
      }),
      ...events,
      ...(end ? [emit.event('episode.finished', [episodeId], end, finishedAt ?? null)] : []),
    ];
    return { drafts, refusals, raw: canonical, ...(this.#bodies.length > 0 ? { bodies: this.#bodies } : {}) };
  }
}
