/**
 * The steps of episodes, in the order in which each episode took them. Episode by episode, because both keys begin with it: 100,000 steps
 * of a table of 400,000 took 0.5 s of processor time so, 0.9 s as one join over an array of ids, and 1.2 s with both tables read from
 * end to end, of which planning over the array was half.
 */
import type { Session } from '../../db/pool.ts';
import { arraysOf, facts, sql } from '../../db/query.ts';
import { type StepContent, type StepFacts, stepKey } from './facts.ts';

type StepFactsRow = readonly [
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
  copied: boolean,
  /** Only where contents are read. */
  ...content: [
    text: string | null,
    tokens: number | null,
    tokensKey: string,
    finishReason: string | null,
    length: number | null,
  ],
];

const asked = (episodes: readonly string[]) =>
  facts.selectFrom(sql<{ id: string }>`unnest(${episodes}::text[])`.as<'w'>(sql`w (id)`));
const ID = sql<string>`w.id collate "C"`;

/** The columns of `Row`. */
const stepRows = (episodes: readonly string[], contents: boolean) =>
  asked(episodes)
    .crossJoinLateral((one) =>
      one
        .selectFrom('steps as s')
        .innerJoin('calls as c', (on) => on.onRef('c.call_id', '=', 's.call_id').on('c.episode_id', '=', ID))
        .select(['s.episode_id', 's.call_id', 's.candidate', 's.chosen', 's.parent_step_id'])
        .select([
          sql`coalesce(c.completed_agent_id, c.requested_agent_id)`.as('agent'),
          sql`coalesce(c.completed_role, c.requested_role)`.as('role'),
          sql`coalesce(c.completed_turn, c.requested_turn)`.as('turn'),
          sql`case when c.copied is not true then coalesce(c.checkpoint_id, c.model_version) end`.as('policy_version'),
          sql`coalesce(c.requested_seq, c.completed_seq)`.as('seq'),
          sql`extract(epoch from coalesce(c.requested_at, c.completed_at))::double precision`.as('at'),
          sql`c.copied is true`.as('copied'),
        ])
        .$if(contents, (rows) =>
          rows.select([
            's.text',
            sql`cardinality(s.token_ids)`.as('tokens'),
            sql`coalesce(s.token_ids::text, s.text, '')`.as('tokens_key'),
            's.finish_reason',
            sql`coalesce(cardinality(s.token_ids), case when count(*) over (partition by s.call_id) = 1 then c.output_tokens end)`.as(
              'length',
            ),
          ]),
        )
        .where('s.episode_id', '=', ID)
        .offset(sql.lit(0))
        .as('x'),
    )
    .selectAll('x');

const roleRows = (episodes: readonly string[]) =>
  asked(episodes)
    .innerJoin('agents as a', (on) => on.on('a.episode_id', '=', ID))
    .select(['a.episode_id', 'a.agent_id', sql<string>`coalesce(a.role, a.name, a.agent_id)`.as('role')]);

/** Rows that are fetched at a time. */
const BATCH = 5000;

/**
 * The transaction's search_path names the schema; its settings are `KEYED`.
 * @param options.contents whether their outputs are read too; without it the map is empty
 */
export async function readSteps(
  tx: Session,
  episodes: readonly string[],
  { contents }: { readonly contents: boolean },
): Promise<{
  readonly steps: StepFacts[];
  /** Outputs of the steps, by `stepKey`. */
  readonly contents: ReadonlyMap<string, StepContent>;
}> {
  const taken = new Map<string, StepFactsRow[]>(episodes.map((id) => [id, []]));
  let missesRole = false;
  for await (const rows of arraysOf<StepFactsRow>(tx, stepRows([...taken.keys()], contents), BATCH)) {
    for (const row of rows) {
      missesRole ||= row[ROLE] === null;
      taken.get(row[0])?.push(row);
    }
  }
  const roles = new Map<string, Map<string, string>>();
  if (missesRole) {
    for await (const rows of arraysOf<[string, string, string]>(tx, roleRows([...taken.keys()]), BATCH)) {
      for (const [episode, agent, role] of rows) {
        const known = roles.get(episode);
        if (known) known.set(agent, role);
        else roles.set(episode, new Map([[agent, role]]));
      }
    }
  }
  const steps: StepFacts[] = [];
  const outputs = new Map<string, StepContent>();
  for (const id of [...taken.keys()].sort(byCodePoint)) {
    const own = roles.get(id);
    for (const row of taken.get(id)!.sort(inOrder)) {
      const step = stepOf(id, row, own);
      steps.push(step);
      if (contents) outputs.set(stepKey(id, step.step_id), contentOf(row));
    }
  }
  return { steps, contents: outputs };
}

function contentOf([
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  ,
  text,
  tokens,
  tokens_key,
  finish_reason,
  length,
]: StepFactsRow): StepContent {
  return { text, tokens, tokens_key, finish_reason, length };
}

/** A call may name the role of its agent; where it does not, the agent's own role counts, else its name. */
function stepOf(episode_id: string, row: StepFactsRow, roles: ReadonlyMap<string, string> | undefined): StepFacts {
  const [, call_id, candidate, chosen, parent_step_id, agent, callRole, turn, policy_version, , , copied] = row;
  const role = callRole ?? (agent === null ? null : (roles?.get(agent) ?? agent));
  const step_id = `${call_id}/${candidate}`;
  return { episode_id, step_id, call_id, candidate, chosen, parent_step_id, agent, role, turn, policy_version, copied };
}

const [CALL, CANDIDATE, ROLE, SEQ, AT] = [1, 2, 6, 9, 10] as const;

function inOrder(a: StepFactsRow, b: StepFactsRow): number {
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
