// SPDX-License-Identifier: GPL-2.0 OR 0BSD
/*
 * Makes the machine's memory unkind: whoever writes to its parameter `fill` has all pages that the kernel would
 * give to its modules filled with a byte, and given back. The cloud kernel has no poison of pages of its own.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) "dirt: " fmt

enum { DIRT = 0xd7, SPARED = (8 << 20) >> PAGE_SHIFT, BETWEEN = 256 };

static bool is_there_more(void)
{
	struct sysinfo memory;

	si_meminfo(&memory);
	return memory.freeram > SPARED;
}

static int fill(const char *value, const struct kernel_param *parameter)
{
	LIST_HEAD(taken);
	struct page *page, *next;
	unsigned long count = 0;

	while (count % BETWEEN || is_there_more()) {
		page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
		if (!page)
			break;
		memset(page_address(page), DIRT, PAGE_SIZE);
		list_add(&page->lru, &taken);
		count++;
	}
	list_for_each_entry_safe(page, next, &taken, lru)
		__free_page(page);
	pr_info("%lu pages filled\n", count);
	return 0;
}

static const struct kernel_param_ops filling = { .set = fill };
module_param_cb(fill, &filling, NULL, 0200);
MODULE_PARM_DESC(fill, "fill the free pages");

static int __init load(void)
{
	return 0;
}

static void __exit unload(void)
{
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Fills free memory");
