import type { EpisodePage } from '../../../store/explore/episodes/read-page.ts';

/** All pages of an episode as one, without `next`. */
export function joinPages(pages: readonly EpisodePage[]): Omit<EpisodePage, 'next'> {
  const [{ next, ...first }] = pages as readonly [EpisodePage];
  const all = <One>(list: (page: EpisodePage) => readonly One[]): readonly One[] => pages.flatMap(list);
  return {
    ...first,
    conversation: all((page) => page.conversation),
    steps: all((page) => page.steps),
    tool_calls: all((page) => page.tool_calls),
    verdicts: all((page) => page.verdicts),
    rewards: all((page) => page.rewards),
    credits: all((page) => page.credits),
    truncated: [...new Set(all((page) => page.truncated))],
  };
}
