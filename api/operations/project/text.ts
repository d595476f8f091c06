/** Projects as text for people. */
import type * as run from './run.ts';

type Output<F extends keyof typeof run> = Awaited<ReturnType<(typeof run)[F]>>;

export const created = ({ project, created }: Output<'create'>): string =>
  created ? `Project ${project} created. Use it with --project ${project}.` : `Project ${project} exists already.`;

export const listed = ({ items }: Output<'list'>): string =>
  items.length === 0
    ? 'No projects yet. The first is created by the first import.'
    : items.map(({ project }) => project).join('\n');
