/** What operations on attributions do. */
import { setTimeout as sleep } from 'node:timers/promises';
import { query, sql } from '../../../store/db/query.ts';
import { type AnnotationRequest, annotate } from '../../../store/evaluate/attribution/annotate.ts';
import { evaluateAttributions, evaluateModes, type Question } from '../../../store/evaluate/attribution/evaluate.ts';
import type { PageRequest } from '../lists.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';
import { readList } from '../read-list.ts';
import { chatEndpoint, checkedEndpoint } from './chat-endpoint.ts';

type BlameFilter = { readonly episode?: string; readonly method?: string };

export async function list({ db, catchUp }: ReadContext, { episode, method, ...page }: PageRequest & BlameFilter) {
  await catchUp();
  const rows = query
    .selectFrom(listed({ ...(episode ? { episode } : {}), ...(method ? { method } : {}) }).as('found'))
    .selectAll()
    .select(
      sql<string>`concat_ws('/', episode_id, says, lpad(rank::text, 6, '0'), agent_id, entry, step_id, md5(reason))`.as(
        'blame_id',
      ),
    );
  return readList<OutputOf<typeof rows.executeTakeFirstOrThrow>>(
    db,
    query.selectFrom(rows.as('blames')).selectAll(),
    { columns: { episode_id: 'text' }, id: 'blame_id' },
    page,
  );
}

/** Blames of methods and, where no method is asked for, the labels of people and models. */
function listed({ episode, method }: BlameFilter) {
  const methods = query
    .selectFrom('traj.blames as b')
    .select(['b.episode_id', 'b.method as says', 'b.rank', 'b.agent_id', 'b.entry', 'b.step_id', 'b.value', 'b.reason'])
    .$if(episode !== undefined, (all) => all.where('b.episode_id', '=', episode!))
    .$if(method !== undefined, (all) => all.where('b.method', '=', method!));
  const feedback = query
    .selectFrom('traj.feedback as f')
    .select([
      'f.episode_id',
      sql<string | null>`coalesce(f.annotator, f.by, '(nobody)')`.as('says'),
      sql<number | null>`0`.as('rank'),
      sql<string | null>`case when f.target_kind = 'agent' then f.target_id end`.as('agent_id'),
      'f.entry',
      sql<string | null>`case when f.target_kind = 'step' then f.target_id end`.as('step_id'),
      'f.confidence as value',
      sql<string | null>`coalesce(f.explanation, f.label)`.as('reason'),
    ])
    .where('f.kind', '=', 'failure')
    .$if(episode !== undefined, (all) => all.where('f.episode_id', '=', episode!));
  return method === undefined ? methods.unionAll(feedback) : methods;
}

type Evaluation = Pick<Question, 'by' | 'match'>;
export async function evaluate(
  { db, catchUp }: ReadContext,
  asked: { readonly method?: string; readonly annotator?: string; readonly gold?: string } & {
    readonly group: Evaluation['by'];
    readonly match: Evaluation['match'];
    readonly cross_validate?: number;
  },
) {
  await catchUp();
  const {
    method = null,
    annotator = null,
    gold = null,
    group: by,
    match,
    cross_validate: crossValidate = null,
  } = asked;
  return evaluateAttributions(db, { method, annotator, gold, by, match, crossValidate });
}

export async function modes({ db, catchUp }: ReadContext) {
  await catchUp();
  return evaluateModes(db);
}

export async function annotated(
  context: ChangeContext,
  {
    endpoint,
    key_env,
    ...asked
  }: Omit<AnnotationRequest, 'endpoint' | 'key_env'> & {
    readonly endpoint?: string;
    readonly key_env?: string;
  },
) {
  const { settings, env, catchUp, progress, signal } = context;
  const { host = '127.0.0.1', port = 7717 } = settings;
  const request = {
    ...asked,
    key_env: key_env ?? null,
    endpoint: checkedEndpoint(endpoint ?? `http://${host}:${port}/v1`),
  };
  // A missing key is reported before anything is recorded.
  chatEndpoint(request, env);
  const result = await annotate(
    context,
    request,
    {
      askOf: (spec) => chatEndpoint(spec, env),
      wait: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
      signal,
      caughtUp: () => catchUp(),
    },
    async (done, { episodes = 0 }) => progress(done, episodes),
  );
  await catchUp();
  return result;
}
