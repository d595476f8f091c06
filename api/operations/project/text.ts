/** Projects as text for people. */
import type { Outcome } from '../operation.ts';
import type * as run from './run.ts';

export const created = ({ project, created }: Outcome<typeof run.create>): string =>
  created ? `Project ${project} created. Use it with --project ${project}.` : `Project ${project} exists already.`;

export const listed = ({ items }: Outcome<typeof run.list>): string =>
  items.length === 0
    ? 'No projects yet. The first is created by the first import.'
    : items.map(({ project }) => project).join('\n');
