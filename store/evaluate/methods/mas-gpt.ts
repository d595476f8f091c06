/** MAS-GPT (arXiv 2503.03686): one team for similar queries, and how far teams and answers agree. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { canonicalAnswer } from '../consistency/canonical-answer.ts';
import { poolOf, type Selection, selectSystem } from '../consistency/pool.ts';
import { acceptsRewrite, refinedPairs } from '../consistency/refined-teams.ts';
import { groupOf, stepKey } from '../judging/facts.ts';
import { score, verdictOn } from '../judging/judgement.ts';
import { isChoice } from '../judging/messages.ts';
import { clustersOf, played, survivors, textTag } from '../judging/played.ts';
import { method } from './method.ts';
import { refuseInput, requireRectangle, requireRows } from './refuse.ts';
import { Key, nullable } from './shapes.ts';
import { largest } from './statistics.ts';

/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
const SELECTION: { min_score: number | null; embedding_model: string | null } = { min_score: 1, embedding_model: null };

/**
 * Gives all similar queries one multi-agent system: the one that does best on them together.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary; clustering, tie rule (lowest index) and `min_score` are unverified.
 * `scores` has a row for each query and a column for each system. `min_score: null` keeps every query of the cluster.
 * Kept: one system a cluster, by the sum of its scores. Dropped: filling the matrix, more than forty systems. Open:
 * clustering, tie rule and `min_score`.
 */
export const interConsistencySelect = method({
  name: 'inter_consistency_select',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 1,
  summary: 'Pairs each cluster of queries with the system of the highest total score on it.',
  teams: 'a pool of teams on the same tasks',
  params: SELECTION,
  limits: { min_score: nullable(Type.Number()), embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Type.Object({
    scores: Type.Array(Type.Array(Type.Number())),
    clusters: Type.Record(Type.String(), Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 })),
  }),
  run: ({ scores, clusters }, { min_score }): Record<string, Selection> => {
    const systems = requireRectangle('scores', scores);
    if (systems === 0) refuseInput('scores', 'at least one query and one system', scores);
    const rowOf = (name: string, query: number) =>
      scores[query] ?? refuseInput(`clusters.${name}`, `rows of scores, 0 to ${scores.length - 1}`, query);
    return Object.fromEntries(
      Object.entries(clusters).map(([name, queries]) => [
        name,
        selectSystem(
          queries,
          queries.map((query) => rowOf(name, query)),
          min_score,
        ),
      ]),
    );
  },
  judged: {
    readsWith: ({ embedding_model }) => (embedding_model === null ? [] : ['vectors']),
    scope: () => 'set',
    /**
     * A system is a team, a query a task, the score of a team on a task the mean reward of its episodes, a cluster the tasks
     * that are alike. Only teams that were played on every task of a cluster compete: a score that is not there is not 0. An episode is kept if its team is the one that its cluster gets and its task is kept with it. Over the set: clusters are.
     */
    rows: (facts, ask) => {
      const { episodes } = facts;
      const pool = poolOf(episodes.map(played), clustersOf(facts, ask.params.embedding_model), ask.params);
      const choices = new Map(
        Object.entries(pool.clusters).flatMap(([cluster, choice]) =>
          choice.queries.map((task) => [task, { cluster, ...choice }] as const),
        ),
      );
      return episodes.map((episode) => {
        const { task_id, team_id, reward } = episode;
        if (task_id === null || team_id === null || reward === null) {
          return verdictOn(
            episode,
            null,
            task_id === null ? 'no_task' : team_id === null ? 'no_team' : 'missing_reward',
          );
        }
        const { cluster, team, total, competing, kept, reason } = choices.get(task_id)!;
        const detail = { cluster, team_id: team, total };
        if (team === null) return verdictOn(episode, null, reason, detail);
        if (!competing.includes(team_id)) return verdictOn(episode, null, 'not_played_on_all_queries', detail);
        if (team_id !== team) return verdictOn(episode, false, 'other_team', detail);
        return verdictOn(episode, kept.includes(task_id), kept.includes(task_id) ? null : 'below_min_score', detail);
      });
    },
  },
});

/**
 * Whether a multi-agent system rewritten for one query replaces the one it came from.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary. The rewrite itself is a model's work; only the decision is made here.
 * A rewrite that was never scored is not accepted.
 * Kept: a rewrite that scores no worse replaces its base. Dropped: the rewrite and the reasoning that links it to the
 * query. Open: read in a secondary account only.
 */
export const intraConsistencyAccept = method({
  name: 'intra_consistency_accept',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 2,
  summary: 'Accepts a rewrite that executes and scores no worse than its base.',
  teams: 'a pool of teams on the same tasks',
  input: Type.Object({
    base_score: Type.Number(),
    refined_score: nullable(Type.Number()),
    executable: Type.Boolean(),
  }),
  run: (rewrite): boolean => acceptsRewrite(rewrite),
  judged: {
    reads: ['teams'],
    // The team that it was made from may have played the task in another group.
    scope: () => 'set',
    /**
     * A refinement is a team whose tag `base_team_id` names the team that it was made from; both were played on the task. The verdict is on
     * each episode that the refinement played there.
     */
    rows: ({ episodes, teams }) => {
      const pairs = refinedPairs(episodes.map(played), [...teams.values()]);
      const found = new Map(pairs.map((pair) => [stepKey(pair.task_id, pair.team_id), pair]));
      return episodes.map((episode) => {
        const { task_id, team_id } = episode;
        if (task_id === null || team_id === null)
          return verdictOn(episode, null, task_id === null ? 'no_task' : 'no_team');
        const { tags, unmapped } = teams.get(team_id) ?? {};
        const base = textTag(tags ?? null, 'base_team_id') ?? textTag(unmapped ?? null, 'base_team_id');
        if (base === null) return verdictOn(episode, null, 'not_a_refinement');
        const pair = found.get(stepKey(task_id, team_id));
        if (pair === undefined) return verdictOn(episode, null, 'no_base_score');
        const { accepted, base_score, refined_score, executable, base_team_id } = pair;
        const reason = !executable ? 'not_executable' : refined_score === null ? 'never_scored' : 'worse_than_base';
        return verdictOn(episode, accepted, accepted ? null : reason, {
          base_team_id,
          base_score,
          refined_score,
          executable,
        });
      });
    },
  },
});

/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
/**
 * How far similar queries were given the same multi-agent system.
 *
 * Source: ours, after MAS-GPT (arXiv 2503.03686); not from the paper. Null without queries.
 */
export const interConsistencyScore = method({
  name: 'inter_consistency_score',
  kind: 'score',
  source: 'ours, after MAS-GPT (arXiv 2503.03686)',
  version: 1,
  summary: 'Share of queries whose system is the most frequent one of their cluster.',
  teams: 'a pool of teams on the same tasks',
  params: { embedding_model: null } as { embedding_model: string | null },
  limits: { embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Type.Object({ cluster: Type.Array(Key), mas: Type.Array(Key) }),
  run: ({ cluster, mas }): number | null => {
    requireRows('mas', mas, cluster.length, 'cluster');
    if (cluster.length === 0) return null;
    let agreeing = 0;
    for (const queries of groupBy([...cluster.keys()], (query) => cluster[query]!).values()) {
      const systems = groupBy(queries, (query) => mas[query]!);
      agreeing += largest([...systems.values()].map(({ length }) => length));
    }
    return agreeing / cluster.length;
  },
  judged: {
    readsWith: ({ embedding_model }) => (embedding_model === null ? [] : ['vectors']),
    scope: () => 'set',
    /** Which team each query was given: those of the episodes that every filter before kept, each pair of task and team once. */
    rows: (facts, ask) => {
      const known = survivors(facts);
      const clusters = clustersOf(facts, ask.params.embedding_model);
      const given = facts.episodes.flatMap(({ episode_id, task_id, team_id }) =>
        known.has(episode_id) && task_id !== null && team_id !== null ? [{ task_id, team_id }] : [],
      );
      const pairs = [...groupBy(given, ({ task_id, team_id }) => stepKey(task_id, team_id)).values()].map(
        ([one]) => one!,
      );
      const detail = { pairs: pairs.length, left_out: facts.episodes.length - given.length };
      if (pairs.length === 0) return [score('s/queries', null, 'no_teams', detail)];
      const value = ask.run({
        cluster: pairs.map(({ task_id }) => clusters.get(task_id)!.cluster),
        mas: pairs.map(({ team_id }) => team_id),
      });
      return [score('s/queries', value, null, detail)];
    },
  },
});

/**
 * How far the answers to one query agree.
 *
 * Source: ours, after the inter-consistency idea of MAS-GPT (arXiv 2503.03686); not from the paper.
 * The share is of all answers, a null one included, so that a team that often fails to answer does not look united.
 */
export const agreementScore = method({
  name: 'agreement_score',
  kind: 'score',
  source: 'ours, after MAS-GPT (arXiv 2503.03686)',
  version: 1,
  summary: 'Share of the most frequent answer among all answers, null ones included; the first seen wins a tie.',
  input: Type.Object({ answers: Type.Array(nullable(Type.String())) }),
  run: ({ answers }): { readonly score: number; readonly majority: string | null } => {
    let majority: string | null = null;
    let most = 0;
    for (const [answer, same] of groupBy(answers, (one) => one)) {
      if (answer !== null && same.length > most) {
        majority = answer;
        most = same.length;
      }
    }
    return { score: most === 0 ? 0 : most / answers.length, majority };
  },
  judged: {
    /** Two spellings of one answer are one answer, so that they can be counted together. */
    rows: ({ episodes }, ask) =>
      [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const answers = members.map((member) =>
          member.answer === null ? null : canonicalAnswer(member.answer, { choices: isChoice(member) }),
        );
        const output = ask.run({ answers });
        return answers.every((answer) => answer === null)
          ? score(`g/${group}`, null, 'no_answers', output)
          : score(`g/${group}`, output.score, null, output);
      }),
  },
});
