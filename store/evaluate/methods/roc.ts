/** The two penalties of GRPO-RoC. Source: microsoft/rStar, down_sample/roc.py. */

/** Share of tool responses that contain “error” in any case; 0.5 without tool calls. */
export const toolPenalty = (responses: readonly string[]): number =>
  responses.length === 0
    ? 0.5
    : responses.filter((text) => text.toLowerCase().includes('error')).length / responses.length;

type AnswerTags = {
  readonly open_tags: number;
  readonly close_tags: number;
  readonly closed_pairs: number;
  readonly turns: number;
};

/** 1 for missing or unpaired answer tags, otherwise the pairs beyond the first per assistant turn, at most 1. */
export function formatPenalty({ open_tags, close_tags, closed_pairs, turns }: AnswerTags): number {
  const paired = open_tags > 0 && open_tags === closed_pairs && close_tags === closed_pairs;
  return paired && turns > 0 ? Math.min((closed_pairs - 1) / turns, 1) : 1;
}
