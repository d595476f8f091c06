/** Reads in bulk what the methods of a judging need, and nothing else. The transaction's search_path names the schema. */

import type { Session } from '../../db/pool.ts';
import { readEntries } from '../attribution/entries.ts';
import { taskVectors } from '../consistency/task-embeddings.ts';
import { decisionFacts, feedbackFacts, observationFacts, teamFacts, toolFacts } from './episode-facts.ts';
import { type EpisodeFacts, episodeFacts, executionReports, type StepContent, stepKey } from './facts.ts';
import type { FactKind, MethodFacts } from './method-facts.ts';
import { readSteps } from './step-facts.ts';
import { tokenFacts } from './token-facts.ts';

/** What stays the same for every method of a judging. */
export type SharedFacts = Omit<MethodFacts, 'rewardOf' | 'ownRewards' | 'survives' | 'verdictOf'>;

export async function readFacts(
  tx: Session,
  ids: readonly string[],
  readings: ReadonlySet<FactKind>,
): Promise<SharedFacts> {
  const read = async <T>(reading: FactKind, from: () => Promise<T>): Promise<() => T> => {
    if (!readings.has(reading)) return () => unread(reading);
    const facts = await from();
    return () => facts;
  };
  // First: what changes while the rest is read will be seen as changed since.
  const episodes: EpisodeFacts[] = await episodeFacts(tx, ids);
  const { steps, contents: outputs } = await readSteps(tx, ids, { contents: readings.has('content') });
  const contents = await read('content', async () => outputs);
  const reports = await read('reports', () => executionReports(tx, ids, contents()));
  const recorded = await read('passes', () => tokenFacts(tx, ids));
  const feedback = await read('feedback', () => feedbackFacts(tx, ids));
  const tools = await read('tools', () => toolFacts(tx, ids));
  const decisions = await read('decisions', () => decisionFacts(tx, ids));
  const observations = await read('observations', () => observationFacts(tx, ids));
  const entries = await read('entries', () => readEntries(tx, ids));
  const teams = await read('teams', () =>
    teamFacts(tx, [...new Set(episodes.flatMap(({ team_id }) => (team_id === null ? [] : [team_id])))]),
  );
  const vectors = await read('vectors', () =>
    taskVectors(tx, [...new Set(episodes.flatMap(({ task_id }) => (task_id === null ? [] : [task_id])))]),
  );
  return {
    episodes,
    steps,
    contentOf: ({ episode_id, step_id }) => contents().get(stepKey(episode_id, step_id)) ?? NO_CONTENT,
    get reports() {
      return reports();
    },
    get recorded() {
      return recorded();
    },
    get feedback() {
      return feedback();
    },
    get tools() {
      return tools();
    },
    get decisions() {
      return decisions();
    },
    get observations() {
      return observations();
    },
    get entries() {
      return entries();
    },
    get teams() {
      return teams();
    },
    get vectors() {
      return vectors();
    },
  };
}

const NO_CONTENT: StepContent = { text: null, tokens: null, tokens_key: '', length: null, finish_reason: null };

export function unread(reading: FactKind): never {
  throw new Error(`A method reads ${reading} without declaring it in its definition.`);
}
