/**
 * The steps of episodes, in the order in which each episode took them. Few episodes are looked up by key; where most of the tables
 * is wanted, they are read from end to end: by key 100,000 steps took 1.3 s, the whole tables of a million 3.5 s (once each).
 */
import type { Session } from '../db/pool.ts';
import { KEYED, SWEPT } from '../planning.ts';
import type { StepFacts } from './facts.ts';

type Row = readonly [
  episodeId: string,
  callId: string,
  candidate: number,
  chosen: boolean | null,
  parentStepId: string | null,
  agent: string | null,
  role: string | null,
  turn: number | null,
  policyVersion: string | null,
  seq: number | null,
  at: number | null,
];

const STEPS = `select s.episode_id, s.call_id, s.candidate, s.chosen, s.parent_step_id, coalesce(c.completed_agent_id, c.requested_agent_id),
  coalesce(c.completed_role, c.requested_role), coalesce(c.completed_turn, c.requested_turn), coalesce(c.checkpoint_id, c.model_version),
  coalesce(c.requested_seq, c.completed_seq), extract(epoch from coalesce(c.requested_at, c.completed_at))::double precision
  from steps s join calls c on c.episode_id = s.episode_id and c.call_id = s.call_id where s.episode_id = any($1::text[])`;
const ROLES = 'select episode_id, agent_id, role from agents where role is not null and episode_id = any($1::text[])';

/** Fewer are always looked up by key. */
const FEW = 2000;

/** The transaction's search_path names the schema; its settings are `KEYED`, and are so again afterwards. */
export async function stepFacts(tx: Session, episodes: readonly string[]): Promise<StepFacts[]> {
  const sweep = await paysToSweep(tx, episodes.length);
  if (sweep) await tx.query(SWEPT);
  const taken = new Map<string, Row[]>(episodes.map((id) => [id, []]));
  let missesRole = false;
  await read<Row>(tx, sweep, { name: 'judge_steps', sql: STEPS }, episodes, (row) => {
    missesRole ||= row[ROLE] === null;
    taken.get(row[0])?.push(row);
  });
  const roles = new Map<string, Map<string, string>>();
  if (missesRole) {
    await read<[string, string, string]>(tx, sweep, { name: 'judge_roles', sql: ROLES }, episodes, (row) => {
      const known = roles.get(row[0]);
      if (known) known.set(row[1], row[2]);
      else roles.set(row[0], new Map([[row[1], row[2]]]));
    });
  }
  if (sweep) await tx.query(KEYED);
  const steps: StepFacts[] = [];
  for (const id of [...taken.keys()].sort(byCodePoint)) {
    const own = roles.get(id);
    for (const row of taken.get(id)!.sort(inOrder)) steps.push(stepOf(id, row, own));
  }
  return steps;
}

/** A call says in which role its agent spoke; where it does not, the agent's own role counts. */
function stepOf(episode_id: string, row: Row, roles: ReadonlyMap<string, string> | undefined): StepFacts {
  const [, call_id, candidate, chosen, parent_step_id, agent, said, turn, policy_version] = row;
  const role = said ?? (agent === null ? null : (roles?.get(agent) ?? null));
  const step_id = `${call_id}/${candidate}`;
  return { episode_id, step_id, call_id, candidate, chosen, parent_step_id, agent, role, turn, policy_version };
}

/** Reading everything pays from about a quarter of it on. */
async function paysToSweep(tx: Session, wanted: number): Promise<boolean> {
  if (wanted <= FEW) return false;
  const { rows } = await tx.query<{ total: number }>('select count(*)::integer as total from episodes');
  return wanted * 4 >= rows[0]!.total;
}

async function read<R>(
  tx: Session,
  sweep: boolean,
  { name, sql }: { readonly name: string; readonly sql: string },
  episodes: readonly string[],
  note: (row: R) => void,
): Promise<void> {
  if (!sweep) return (await tx.query<R>(sql, [episodes], { name, array: true })).rows.forEach(note);
  for await (const rows of tx.stream<R>(sql, [episodes], { array: true, batch: 5000 })) rows.forEach(note);
}

const [CALL, CANDIDATE, ROLE, SEQ, AT] = [1, 2, 6, 9, 10] as const;

function inOrder(a: Row, b: Row): number {
  return (
    nullsLast(a[SEQ], b[SEQ]) || nullsLast(a[AT], b[AT]) || byCodePoint(a[CALL], b[CALL]) || a[CANDIDATE] - b[CANDIDATE]
  );
}

function nullsLast(a: number | null, b: number | null): number {
  if (a === b) return 0;
  if (a === null) return 1;
  return b === null ? -1 : a - b;
}

/** The order of PostgreSQL's collation "C": by bytes of UTF-8, which is by code points. */
function byCodePoint(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    // Surrogates stand for code points above all others, though their own numbers are lower than some.
    const high = (unit: number) => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);
    return high(x) - high(y);
  }
  return a.length - b.length;
}
