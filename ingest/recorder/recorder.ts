/**
 * What an agent's own program imports to record what happened. It needs nothing but Node, knows no database and no model, and can be
 * copied into another program with its folder `recorder/`: events are queued, sent in batches to `POST /v1/events`, and sent again
 * while the server is away; with a spill folder they wait on disk meanwhile. What the server refuses is reported, what it takes is durable.
 */
import { randomUUID } from 'node:crypto';
import type { EventData, EventName } from '../events/events.ts';
import { noteUnsent } from './exit.ts';
import { nextTime } from './next-time.ts';
import { type Entry, head, post, RecorderError, type Rejection, rejection } from './send.ts';
import { openSpill } from './spill.ts';

export { RecorderError, type Rejection } from './send.ts';

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

type RequestData = EventData<'generation.requested'>;
type Choice = EventData<'generation.completed'>['choices'][number];

/** A model call and all its candidates. A candidate that is a text is numbered by its place. */
export type StepInput = Omit<EventData<'generation.completed'>, 'call_id' | 'choices'> &
  Pick<RequestData, 'model' | 'params' | 'input' | 'tools' | 'parent_call_id'> & {
    /** Default: a random id. */
    readonly call_id?: string;
    readonly choices: readonly (string | Choice)[];
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

/** What became of the events since the flush before. `duplicates` were known to the server already. */
export type FlushReport = {
  readonly sent: number;
  readonly accepted: number;
  readonly duplicates: number;
  /** Of a recorder with a spill folder: events that were written there, and damaged files that were moved aside. */
  readonly spilled?: number;
  readonly damaged?: number;
};

export type RecorderOptions = {
  /** Where Troupe listens, such as `http://127.0.0.1:7717`. */
  readonly baseUrl: string;
  /** The CloudEvents source of every event. */
  readonly source: string;
  /** An API key with the scope ingest, where the server asks for one. */
  readonly apiKey?: string;
  /** Sent with every request: for instance an Authorization header. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Events in one request. */
  readonly batchSize?: number;
  /** How often one request is tried before the flush fails. */
  readonly tries?: number;
  /** The first pause in milliseconds before a request is sent again; each further pause is twice as long, up to 5 s. */
  readonly pause?: number;
  /** A folder where events wait while the server is away. What it holds is sent first, by this recorder or the next. */
  readonly spill?: string;
  /** Bytes that folder may hold. */
  readonly spillBytes?: number;
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
  const { baseUrl, source, batchSize = 250, tries = 8, pause = 100, spillBytes = 2 ** 28 } = options;
  const headers = { ...(options.apiKey && { authorization: `Bearer ${options.apiKey}` }), ...options.headers };
  const url = new URL('v1/events', baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`);
  const spill = options.spill === undefined ? null : openSpill(options.spill, spillBytes);
  const queue: Entry[] = [];
  const rejected: Rejection[] = [];
  let counts = { sent: 0, accepted: 0, duplicates: 0, spilled: 0 };
  let flushing = 0;
  let away = false;
  let running: Promise<unknown> | null = null;

  async function send(batch: readonly Entry[]): Promise<void> {
    // What waits on disk can wait longer: one try shows whether the server is back.
    const answer = await post({ url, headers, pause }, batch, away && spill ? 1 : tries);
    away = false;
    for (const error of answer.errors) rejected.push(rejection(batch, error));
    counts.sent += batch.length;
    counts.accepted += answer.accepted;
    counts.duplicates += answer.duplicates;
  }

  /** Sends what waits on disk, then from the head of the queue; an entry leaves only when the server has answered for it. */
  async function drain(): Promise<void> {
    for (let file = spill?.oldest(); file; file = spill?.oldest()) {
      for (let rest = file.entries; rest.length > 0; ) {
        const batch = head(rest, batchSize);
        await send(batch);
        rest = rest.slice(batch.length);
      }
      spill?.remove(file.name);
    }
    while (queue.length >= (flushing > 0 ? 1 : batchSize)) {
      const batch = head(queue, batchSize);
      await send(batch);
      queue.splice(0, batch.length);
    }
  }

  /** One request at a time, so that events arrive in order. Resolves with the error, or null. */
  const run = async (): Promise<unknown> => {
    running ??= drain()
      .then(
        () => null,
        (problem: unknown) => {
          away = problem instanceof RecorderError && problem.away;
          return away && keep() ? null : problem;
        },
      )
      .finally(() => {
        running = null;
        noteUnsent(unsent, queue.length > 0);
      });
    return running;
  };

  /** Moves the queue to the spill folder. */
  const keep = (): boolean => {
    if (queue.length === 0) return spill !== null;
    if (!spill?.keep(queue)) return false;
    counts.spilled += queue.length;
    queue.length = 0;
    return true;
  };

  const event = (draft: RecorderDraft): void => {
    const value = envelope(source, draft) as { readonly id: string; readonly type: string };
    queue.push({ id: value.id, type: value.type, json: JSON.stringify(value) });
    noteUnsent(unsent, true);
    if (queue.length >= batchSize && running === null) void run();
  };

  const flush = async (): Promise<FlushReport> => {
    flushing++;
    try {
      do {
        const problem = await run();
        if (problem !== null) throw problem;
      } while (queue.length > 0 || running !== null);
    } finally {
      flushing--;
    }
    const { spilled, ...done } = counts;
    counts = { sent: 0, accepted: 0, duplicates: 0, spilled: 0 };
    const refused = rejected.splice(0);
    const [first] = refused;
    if (first) {
      throw new RecorderError(
        `${refused.length} of ${done.sent} events were refused. The first is ${first.type} ${first.id}: ` +
          `${first.field || 'the event'} must be ${first.expected}, it is ${first.got} (${first.code}).`,
        refused,
      );
    }
    return spill ? { ...done, spilled, damaged: spill.damaged() } : done;
  };

  const unsent = {
    flush,
    leave: () => {
      if (!keep())
        process.stderr.write(`${queue.length} events were not sent to ${url}: the program ended first.
`);
    },
  };

  if (spill) void run();

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
      const asked = { ...who, model, params, input, tools, parent_call_id } as RequestData;
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
    flush,
  };
}
