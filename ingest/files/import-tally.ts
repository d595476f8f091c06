/** What an import holds, counted from its events; and how often an equal record was seen. */
import type { Event } from '../events/events.ts';
import { sha256 } from '../events/json.ts';

export type Tally = {
  readonly episodes: number;
  readonly tasks: number;
  readonly agents: number;
  /** Model calls; `steps` are their candidates. */
  readonly calls: number;
  readonly steps: number;
  readonly tool_calls: number;
  readonly feedback: number;
};

/**
 * Counts entities, not events: tasks, episodes, agents, calls, tool calls and feedback once over all records, agents by name. An episode
 * of unknown task counts as one task. A call has the candidates of its last event. Holds a short hash of each call, tool call and feedback.
 */
export function tallier(): { readonly add: (event: Event) => void; readonly total: () => Tally } {
  const episodes = new Set<string>();
  const untasked = new Set<string>();
  const tasked = new Set<string>();
  const tasks = new Set<string>();
  const agents = new Set<string>();
  const namesOf = new Map<string, Set<string>>();
  const steps = new Map<string, number>();
  const toolCalls = new Set<string>();
  const feedback = new Set<string>();

  const add = (event: Event): void => {
    const { name, data } = event;
    const about = data as { episode_id?: unknown; task_id?: unknown; agent_id?: unknown };
    if (typeof about.episode_id === 'string') episodes.add(about.episode_id);
    if (typeof about.agent_id === 'string') {
      agents.add(about.agent_id);
      const called = name === 'agent.defined' ? (data as { name?: unknown }).name : null;
      if (typeof called === 'string' && called !== about.agent_id) {
        namesOf.set(about.agent_id, (namesOf.get(about.agent_id) ?? new Set()).add(called));
      }
    }
    if (name === 'task.defined' || name === 'episode.started') {
      const episode = name === 'episode.started' ? (about.episode_id as string) : null;
      if (typeof about.task_id === 'string') {
        tasks.add(about.task_id);
        if (episode !== null) tasked.add(episode);
      } else if (episode !== null) untasked.add(episode);
    } else if (name === 'generation.completed') {
      const { episode_id: episode, call_id: call, choices } = data as unknown as TalliedIds & { choices: unknown[] };
      steps.set(shortHash(episode, call), choices.length);
    } else if (name === 'tool.called') {
      const { episode_id: episode, tool_call_id: id } = data as unknown as TalliedIds;
      toolCalls.add(shortHash(episode, id));
    } else if (name === 'feedback.recorded')
      feedback.add(shortHash(event.key, (data as unknown as TalliedIds).feedback_id));
  };
  const total = (): Tally => ({
    episodes: episodes.size,
    tasks: tasks.size + [...untasked].filter((episode) => !tasked.has(episode)).length,
    agents: new Set([...agents].flatMap((id) => [...(namesOf.get(id) ?? [id])])).size,
    calls: steps.size,
    steps: [...steps.values()].reduce((sum, candidates) => sum + candidates, 0),
    tool_calls: toolCalls.size,
    feedback: feedback.size,
  });
  return { add, total };
}

type TalliedIds = {
  readonly episode_id: string;
  readonly call_id: string;
  readonly tool_call_id: string;
  readonly feedback_id: string;
};

/** 96 bits, so that no two of a billion meet. */
const shortHash = (...names: readonly string[]): string => sha256(JSON.stringify(names)).slice(0, 24);

/**
 * Numbers equal records: 0 for the first, 1 for the next … Holds 16 bytes a record (96 bits of hash and a count) in a table that is
 * at most half full, so a million records take 32 MB.
 */
export function ordinals(): (canonical: string) => number {
  let slots = 1024;
  let table = new Uint32Array(slots * 4);
  let used = 0;

  const slotOf = (into: Uint32Array, size: number, a: number, b: number, c: number): number => {
    for (let slot = a % size; ; slot = (slot + 1) % size) {
      const at = slot * 4;
      if (into[at + 3] === 0 || (into[at] === a && into[at + 1] === b && into[at + 2] === c)) return at;
    }
  };
  const grow = (): void => {
    const larger = new Uint32Array(slots * 8);
    for (let at = 0; at < table.length; at += 4) {
      if (table[at + 3] === 0) continue;
      larger.set(table.subarray(at, at + 4), slotOf(larger, slots * 2, table[at]!, table[at + 1]!, table[at + 2]!));
    }
    table = larger;
    slots *= 2;
  };
  return (canonical) => {
    const hash = sha256(canonical);
    const [a, b, c] = [0, 8, 16].map((from) => Number.parseInt(hash.slice(from, from + 8), 16)) as [
      number,
      number,
      number,
    ];
    const at = slotOf(table, slots, a, b, c);
    const seen = table[at + 3]!;
    if (seen === 0) {
      table.set([a, b, c, 1], at);
      if (++used * 2 > slots) grow();
    } else table[at + 3] = seen + 1;
    return seen;
  };
}
