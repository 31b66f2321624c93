// A consumer by remoting: push, orderly, broadcast or pull; programs.py has its words and what it
// prints.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var left atomic.Int64

func main() {
	rlog.SetLogLevel("fatal")
	words := os.Args[1:]
	wanted, _ := strconv.Atoi(words[6])
	milliseconds, _ := strconv.Atoi(words[7])
	left.Store(int64(wanted))
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	model := consumer.Clustering
	if words[1] == "broadcast" {
		model = consumer.BroadCasting
	}
	options := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{words[0]})),
		consumer.WithGroupName(words[2]),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(words[1] == "orderly"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: words[5]}
	if words[4] == "sql" {
		selector.Type = consumer.SQL92
	}
	if words[1] == "pull" {
		pull(options, words[3], selector, end)
	} else {
		push(options, words[3], selector, end)
	}
}

func push(options []consumer.Option, topic string, selector consumer.MessageSelector, end time.Time) {
	pushed, err := rocketmq.NewPushConsumer(options...)
	check(err)
	check(pushed.Subscribe(topic, selector, func(_ context.Context,
		messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		took(messages)
		return consumer.ConsumeSuccess, nil
	}))
	check(pushed.Start())
	for !isDone(end) {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second) // for what it is given beyond
	check(pushed.Shutdown())
}

func pull(options []consumer.Option, topic string, selector consumer.MessageSelector, end time.Time) {
	pulled, err := rocketmq.NewPullConsumer(options...)
	check(err)
	check(pulled.Subscribe(topic, selector))
	check(pulled.Start())
	for !isDone(end) {
		polled, err := pulled.Poll(context.Background(), time.Second)
		if err == nil {
			took(polled.GetMsgList())
			pulled.ACK(context.Background(), polled, consumer.ConsumeSuccess)
		}
	}
	check(pulled.Shutdown())
}

func isDone(end time.Time) bool {
	return left.Load() <= 0 || time.Now().After(end)
}

func took(messages []*primitive.MessageExt) {
	for _, each := range messages {
		keys := strings.Fields(each.GetKeys())
		sort.Strings(keys)
		fmt.Printf("%d %s %s %x\n", each.ReconsumeTimes+1, each.MsgId, strings.Join(keys, ","), each.Body)
		left.Add(-1)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
