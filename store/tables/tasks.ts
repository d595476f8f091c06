import { textOf, unmapped } from './projection.ts';
import { group, table } from './table.ts';

export const tasks = table('tasks', 'The problems that teams are given.', {
  keys: { task_id: 'text' },
  groups: [
    group('task.defined', {
      columns: {
        query: ['text', ({ query }) => textOf(query)],
        content: ['json', ({ query }) => (Array.isArray(query) ? query : null)],
        ground_truth: 'json',
        reference: 'json',
        tests: 'json',
        constraints: 'json',
        origin: ['text', 'source'],
        split: 'text',
        difficulty: 'text',
        domain: 'text',
        tags: 'jsonb',
        unmapped: ['json', unmapped],
      },
    }),
  ],
});

export const toldTasks = table('told_tasks', 'What each trace says of its task.', {
  keys: { episode_id: 'text', task_id: 'text' },
  also: {
    told: ['json not null', 'the row of tasks that the trace alone would make'],
    version: ['text not null', 'the version of the event that the trace made of it'],
  },
});
