/** Clients of the events endpoint, as proofs need them: what they sent, the answers, and when. */

type Envelope = {
  readonly specversion: string;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly data: unknown;
};

export type Answer = {
  /** 0 where nothing was answered. */
  readonly status: number;
  readonly ms: number;
  readonly retryAfter: string | null;
  readonly body: {
    readonly accepted: number;
    readonly items: readonly { readonly code?: string; readonly expected?: string }[];
  } | null;
};

/** The events of one small episode: two steps of one agent. */
export function episodeOf(id: string): Envelope[] {
  const events: readonly (readonly [name: string, data: object])[] = [
    ['episode.started', { episode_id: id, task_id: `task-of-${id}` }],
    ['agent.defined', { episode_id: id, agent_id: 'solver', name: 'Solver', role: 'solver' }],
    [
      'generation.completed',
      { episode_id: id, call_id: 'c1', agent_id: 'solver', choices: [{ index: 0, content: 'x'.repeat(200) }] },
    ],
    [
      'generation.completed',
      { episode_id: id, call_id: 'c2', agent_id: 'solver', choices: [{ index: 0, content: '42' }] },
    ],
    ['episode.finished', { episode_id: id, outcome: 'success' }],
  ];
  return envelopesOf(id, events);
}

/** These events as a program sends them, their ids counted behind a common part. */
export const envelopesOf = (id: string, events: readonly (readonly [name: string, data: object])[]): Envelope[] =>
  events.map(([name, data], i) => ({
    specversion: '1.0',
    id: `${id}/${i}`,
    source: '/proof',
    type: `troupe.${name}.v1`,
    data,
  }));

/** Posts events and waits for the answer, whatever it is. */
export async function post(url: string, events: readonly Envelope[], timeoutMs = 15_000): Promise<Answer> {
  const began = performance.now();
  try {
    const response = await fetch(`${url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(events),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const body = (await response.json()) as Answer['body'];
    return {
      status: response.status,
      ms: performance.now() - began,
      retryAfter: response.headers.get('retry-after'),
      body,
    };
  } catch {
    return { status: 0, ms: performance.now() - began, retryAfter: null, body: null };
  }
}

/** Posts one episode after the other in some lanes, each until it is acknowledged. Their ids begin with `name-`. */
export function loadOn(url: string, name: string, lanes: number) {
  let going = true;
  let acknowledged = 0;
  const lane = async (k: number): Promise<void> => {
    for (let n = 0; going; n++) {
      while ((await post(url, episodeOf(`${name}-${k}-${n}`))).status !== 200)
        await new Promise((resolve) => setTimeout(resolve, 100));
      acknowledged++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const all = Promise.all(Array.from({ length: lanes }, (_, k) => lane(k)));
  return {
    acknowledged: () => acknowledged,
    /** Ends it; resolves with how many episodes were acknowledged. */
    stop: async (): Promise<number> => {
      going = false;
      await all;
      return acknowledged;
    },
  };
}

/** Whether it comes true in time; what fails while it is looked at is not true yet. */
export async function until(holds: () => Promise<boolean>, ms = 20_000): Promise<boolean> {
  for (const deadline = performance.now() + ms; performance.now() < deadline; ) {
    if (await holds().catch(() => false)) return true;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return false;
}
