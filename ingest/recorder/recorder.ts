/**
 * What an agent's own program imports to record what happened. It needs nothing but Node, knows no database and no model, and can be
 * copied into another program with its folder `recorder/`: events are queued, sent in batches to `POST /v1/events`, and sent again
 * while the server is away; with a spill folder they wait on disk meanwhile. What the server refuses is reported, what it takes is durable.
 */
import { randomUUID } from 'node:crypto';
import type { EventData, EventName } from '../events/events.ts';
import { nextTime } from './next-time.ts';
import { type FlushReport, type RecorderOptions, SendQueue } from './send-queue.ts';

export { RecorderError, type Rejection } from './send.ts';
export type { FlushReport, RecorderOptions } from './send-queue.ts';

/** An event as its producer gives it. `id` repeats when the same fact is sent again; `time` is null where it is unknown. */
export type RecorderDraft<N extends EventName = EventName> = {
  readonly [K in N]: {
    readonly name: K;
    readonly data: EventData<K>;
    /** Default: a random id, so give one wherever the program may send the same fact twice. */
    readonly id?: string;
    /** RFC 3339. Default: now. */
    readonly time?: string | null;
  };
}[N];

type Stamp = { readonly time?: string | null };

/** A model call and all its candidates. A candidate that is a text is numbered by its place. */
export type StepInput = Omit<EventData<'generation.completed'>, 'call_id' | 'choices'> &
  Pick<EventData<'generation.requested'>, 'model' | 'params' | 'input' | 'tools' | 'parent_call_id'> & {
    /** Default: a random id. */
    readonly call_id?: string;
    readonly choices: readonly (string | EventData<'generation.completed'>['choices'][number])[];
  };

/** A tool call, with its result where `status` is given. */
export type ToolCallInput = Omit<EventData<'tool.called'>, 'tool_call_id'> &
  Partial<Pick<EventData<'tool.returned'>, 'status' | 'output' | 'error' | 'duration_ms'>> & {
    /** Default: a random id. */
    readonly tool_call_id?: string;
  };

export type Recorder = {
  /** A problem was stated, by default without a time. Its event id is made of the task id: stating it again in the same words changes nothing. */
  readonly task: (data: EventData<'task.defined'>, stamp?: Stamp) => void;
  /** An attempt began. */
  readonly episode: (data: EventData<'episode.started'>, stamp?: Stamp) => void;
  /** A member of the team was described. */
  readonly agent: (data: EventData<'agent.defined'>, stamp?: Stamp) => void;
  /** A model was called and answered; `requested` is when it was asked. Answers the id of the call: its steps are `<call id>/<index>`. */
  readonly step: (data: StepInput, stamp?: Stamp & { readonly requested?: string | null }) => string;
  /** A tool was called. Answers the id of the tool call. */
  readonly toolCall: (data: ToolCallInput, stamp?: Stamp) => string;
  /** Somebody decided. */
  readonly decision: (data: EventData<'decision.made'>, stamp?: Stamp) => void;
  /** Feedback on a target, given after the fact. */
  readonly feedback: (data: EventData<'feedback.recorded'>, stamp?: Stamp) => void;
  /** An attempt ended. */
  readonly finish: (data: EventData<'episode.finished'>, stamp?: Stamp) => void;
  /** Any event of the vocabulary. */
  readonly event: (draft: RecorderDraft) => void;
  /**
   * Resolves when everything sent so far is durable: at the server, or while it is away in the spill folder. Throws `RecorderError`:
   * with `rejected` when the server refused events (the others are kept and nothing is sent again), without when it could not be
   * reached and there is no spill folder, or no room in it (everything unsent stays for the next flush).
   */
  readonly flush: () => Promise<FlushReport>;
};

/** One event as the CloudEvents JSON object that the server reads; also a line of an event file. */
export function envelope(source: string, draft: RecorderDraft): object {
  const time = draft.time === undefined ? nextTime() : draft.time;
  return {
    specversion: '1.0',
    id: draft.id ?? randomUUID(),
    source,
    type: `troupe.${draft.name}.v1`,
    ...(time === null ? {} : { time }),
    datacontenttype: 'application/json',
    data: draft.data,
  };
}

/**
 * A recorder for one source. Batches leave by themselves when they are full; `flush` sends the rest and waits, and a program that
 * runs out of work waits for it too.
 */
export function createRecorder(options: RecorderOptions): Recorder {
  const queue = new SendQueue(options);
  const event = (draft: RecorderDraft): void => {
    const value = envelope(options.source, draft) as { readonly id: string; readonly type: string };
    queue.push({ id: value.id, type: value.type, json: JSON.stringify(value) });
  };
  return {
    task: (data, stamp) => event({ time: null, ...stamp, name: 'task.defined', id: `task/${data.task_id}`, data }),
    episode: (data, stamp) => event({ ...stamp, name: 'episode.started', id: `${data.episode_id}/started`, data }),
    agent: (data, stamp) => event({ ...stamp, name: 'agent.defined', data }),
    step: (
      { call_id = randomUUID(), choices, model, params, input, tools, parent_call_id, ...completed },
      stamp = {},
    ) => {
      const { episode_id, agent_id, role, turn } = completed;
      const who = { episode_id, call_id, agent_id, role, turn };
      // What is undefined is left out when the event is written.
      const asked = { ...who, model, params, input, tools, parent_call_id } as EventData<'generation.requested'>;
      const { requested = null, ...answered } = stamp;
      event({ name: 'generation.requested', id: `${call_id}/requested`, time: requested, data: asked });
      const numbered = choices.map((one, index) => (typeof one === 'string' ? { index, content: one } : one));
      const data = { ...completed, call_id, choices: numbered };
      event({ ...answered, name: 'generation.completed', id: `${call_id}/completed`, data });
      return call_id;
    },
    toolCall: ({ tool_call_id = randomUUID(), status, output, error, duration_ms, ...called }, stamp) => {
      const { episode_id, call_id } = called;
      const id = `${episode_id}/${tool_call_id}`;
      event({ ...stamp, name: 'tool.called', id: `${id}/called`, data: { ...called, tool_call_id } });
      if (status !== undefined) {
        const data = {
          episode_id,
          tool_call_id,
          call_id,
          status,
          output,
          error,
          duration_ms,
        } as EventData<'tool.returned'>;
        event({ ...stamp, name: 'tool.returned', id: `${id}/returned`, data });
      }
      return tool_call_id;
    },
    decision: (data, stamp) => event({ ...stamp, name: 'decision.made', data }),
    feedback: (data, stamp) => event({ ...stamp, name: 'feedback.recorded', id: data.feedback_id, data }),
    finish: (data, stamp) => event({ ...stamp, name: 'episode.finished', id: `${data.episode_id}/finished`, data }),
    event,
    flush: () => queue.flush(),
  };
}
