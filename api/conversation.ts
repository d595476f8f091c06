/**
 * An episode read back as a conversation: what each call was told that it had not been told before, what its candidates said, tools,
 * messages and decisions, in the order they happened. Pure.
 */

export type Row = Readonly<Record<string, unknown>>;

export type EpisodeRows = {
  /** traj.messages: `input` rows are the context of a call, `sent` rows were said between members. */
  readonly messages: readonly Row[];
  readonly steps: readonly Row[];
  readonly toolCalls: readonly Row[];
  readonly decisions: readonly Row[];
};

export type Entry = {
  readonly kind: 'input' | 'message' | 'step' | 'tool_call' | 'tool_result' | 'decision';
  readonly at: string | null;
  readonly turn: number | null;
  /** Who speaks: agent, sender or role. */
  readonly who: string | null;
  readonly role: string | null;
  readonly call_id: string | null;
  /** Id of the step, message, tool call or decision. */
  readonly id: string;
  readonly text: string | null;
  /** Parts, arguments or output, where the text is not all. */
  readonly content: unknown;
  /** What only this kind has. */
  readonly detail: Readonly<Record<string, unknown>>;
};

type Placed = { readonly entry: Entry; readonly seq: number | null; readonly rank: number };

/** Where everything of an episode has a native order, by that; else by time, and what has no time comes last, in order of kind. */
export function conversation({ messages, steps, toolCalls, decisions }: EpisodeRows): readonly Entry[] {
  const placed = [
    ...newInputs(messages.filter((row) => row.kind === 'input')),
    ...messages.filter((row) => row.kind === 'sent').map(sent),
    ...steps.map(said),
    ...toolCalls.flatMap(tool),
    ...decisions.map(decided),
  ];
  const hasOrder = placed.length > 0 && placed.every(({ seq }) => seq !== null);
  return placed
    .map((one, place) => ({ ...one, place }))
    .sort(
      (a, b) =>
        (hasOrder ? a.seq! - b.seq! : compareTimes(a.entry.at, b.entry.at)) || a.rank - b.rank || a.place - b.place,
    )
    .map(({ entry }) => entry);
}

const compareTimes = (a: string | null, b: string | null): number =>
  a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -1 : 1;

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);

/** A context repeats from call to call; only what no earlier call of the episode was told, or no candidate said, is new. */
function newInputs(rows: readonly Row[]): Placed[] {
  const known = new Map<string, number>();
  const placed: Placed[] = [];
  for (const call of byCall(rows)) {
    const here = new Map<string, number>();
    for (const row of call) {
      const body = JSON.stringify([row.role, row.sender, row.text, row.content]);
      const count = (here.get(body) ?? 0) + 1;
      here.set(body, count);
      if (count <= (known.get(body) ?? 0)) continue;
      known.set(body, count);
      placed.push({ entry: inputEntry(row), seq: number(row.seq), rank: 0 });
    }
  }
  return placed;
}

function byCall(rows: readonly Row[]): Row[][] {
  const calls = new Map<unknown, Row[]>();
  for (const row of rows) {
    const call = calls.get(row.call_id);
    if (call) call.push(row);
    else calls.set(row.call_id, [row]);
  }
  return [...calls.values()];
}

const inputEntry = (row: Row): Entry => ({
  kind: 'input',
  at: text(row.at),
  turn: number(row.turn),
  who: text(row.sender) ?? text(row.role),
  role: text(row.role),
  call_id: text(row.call_id),
  id: String(row.message_id),
  text: text(row.text),
  content: row.content ?? null,
  detail: {},
});

const sent = (row: Row): Placed => ({
  seq: number(row.seq),
  rank: 1,
  entry: { ...inputEntry(row), kind: 'message', detail: { channel: row.channel ?? null } },
});

const said = (row: Row): Placed => ({
  seq: number(row.seq),
  rank: 2,
  entry: {
    kind: 'step',
    at: text(row.completed_at) ?? text(row.requested_at),
    turn: number(row.turn),
    who: text(row.agent) ?? text(row.role),
    role: text(row.role),
    call_id: text(row.call_id),
    id: String(row.step_id),
    text: text(row.text),
    content: row.content ?? null,
    detail: {
      candidate: row.candidate,
      chosen: row.chosen ?? null,
      finish_reason: row.finish_reason ?? null,
      checkpoint_id: row.checkpoint_id ?? null,
      policy: row.policy ?? null,
      model: row.response_model ?? row.model ?? null,
    },
  },
});

function tool(row: Row): Placed[] {
  const common = {
    turn: number(row.turn),
    role: 'tool',
    call_id: text(row.call_id),
    id: String(row.tool_call_id),
  };
  const called: Entry = {
    ...common,
    kind: 'tool_call',
    at: text(row.called_at),
    who: text(row.agent_id),
    text: text(row.arguments_raw),
    content: row.arguments ?? null,
    detail: { name: row.name ?? null, type: row.type ?? null, parse_error: row.parse_error ?? null },
  };
  const returned: Entry = {
    ...common,
    kind: 'tool_result',
    at: text(row.returned_at) ?? text(row.called_at),
    who: text(row.name),
    text: text(row.output),
    content: typeof row.output === 'string' ? null : (row.output ?? null),
    detail: { status: row.status, error: row.error ?? null, duration_ms: row.duration_ms ?? null },
  };
  const seq = number(row.seq);
  return [
    ...(row.name === null ? [] : [{ entry: called, seq, rank: 3 }]),
    ...(row.status === null ? [] : [{ entry: returned, seq, rank: 4 }]),
  ];
}

const decided = (row: Row): Placed => ({
  seq: number(row.seq),
  rank: 5,
  entry: {
    kind: 'decision',
    at: text(row.at),
    turn: number(row.turn),
    who: text(row.by),
    role: null,
    call_id: null,
    id: String(row.decision_id),
    text: text(row.decision),
    content: typeof row.decision === 'string' ? null : (row.decision ?? null),
    detail: { kind: row.kind },
  },
});
