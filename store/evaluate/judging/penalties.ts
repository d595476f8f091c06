/** How clean a rollout is: the outputs of its tools, and its answer tags (GRPO-RoC). */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Assembled } from './assembled.ts';
import type { ToolFact } from './episode-facts.ts';
import type { EpisodeFacts, StepFacts } from './facts.ts';
import { onwardOf } from './over-episodes.ts';

/** The text of a tool's result: its output; where it gave none, its error; where neither, the word of its status. */
function responseOf({ output, error, status }: ToolFact): string[] {
  if (status === null) return [];
  const text = output ?? error;
  if (text === null || text === undefined) return [status === 'ok' ? '' : status];
  return [typeof text === 'string' ? text : JSON.stringify(text)];
}

/** An episode whose every tool call is without an answer has no score; one without tool calls is the method's affair. */
export function toolInput(
  { tools }: Assembled,
  { episode_id }: EpisodeFacts,
): { readonly tool_responses: readonly string[] } | string {
  const calls = tools.get(episode_id) ?? [];
  const tool_responses = calls.flatMap(responseOf);
  return calls.length > 0 && tool_responses.length === 0 ? 'no_tool_responses' : { tool_responses };
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

/** How many open tags have a closing one behind them, each closing one counted once. */
function pairsIn(text: string): number {
  let pairs = 0;
  for (let open = text.indexOf('<answer>'); open >= 0; pairs++) {
    const close = text.indexOf('</answer>', open);
    if (close < 0) return pairs;
    open = text.indexOf('<answer>', close);
  }
  return pairs;
}

export type AnswerTags = {
  readonly open_tags: number;
  readonly close_tags: number;
  readonly closed_pairs: number;
  readonly turns: number;
};

/** Answer tags are `<answer>` and `</answer>`; an assistant's turn is a step that the episode went on from. */
export function tagInput({ contentOf }: Assembled, steps: readonly StepFacts[]): AnswerTags | string {
  const turns = onwardOf(steps);
  if (turns.length === 0) return 'no_steps';
  const text = turns.map((step) => contentOf(step).text ?? '').join('\n');
  return {
    open_tags: count(text, /<answer>/g),
    close_tags: count(text, /<\/answer>/g),
    closed_pairs: pairsIn(text),
    turns: turns.length,
  };
}

export const stepsOf = (facts: Assembled): ((episode: EpisodeFacts) => readonly StepFacts[]) => {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return ({ episode_id }) => steps.get(episode_id) ?? [];
};
